"""The notebook of experiments/python runs from its first cell to its last."""

import ast
import json
import os
import tempfile
import unittest

import command


class Notebook(unittest.TestCase):
    def test_each_cell_runs_and_what_it_shows_can_be_shown(self):
        import matplotlib

        matplotlib.use("Agg")
        notebook = json.loads((command.configs.parent / "experiments/python/planning.ipynb").read_text())
        cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertEqual(len(notebook["cells"]), 10)
        names = {}
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for cell in cells:
                    with self.subTest(cell):
                        self.show(cell, names)
            finally:
                os.chdir(before)

    def show(self, cell, names):
        """Runs a cell as IPython does: the value of a last expression is shown."""
        tree = ast.parse(cell)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        if last:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            self.assertTrue(getattr(value, "_repr_html_", value.__repr__)())


if __name__ == "__main__":
    unittest.main()
