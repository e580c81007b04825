"""The examples of the package's page run one after another, as a new user pastes them."""

import contextlib
import io
import os
import re
import tempfile
import unittest

import command


class Page(unittest.TestCase):
    def test_examples_run_in_an_empty_folder_and_write_what_they_say(self):
        import matplotlib

        matplotlib.use("Agg")
        page = (command.configs.parent / "apps/python/README.md").read_text()
        examples = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        self.assertEqual(len(examples), 5)
        before = os.getcwd()
        printed = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
            os.chdir(folder)
            try:
                exec("\n".join(examples), {})
                written = set(os.listdir())
            finally:
                os.chdir(before)
        named = {name for name in re.findall(r'"([a-z0-9.]+)"', "\n".join(examples)) if name.count(".") == 1}
        self.assertEqual(written, {name for name in named if name.endswith((".png", ".h5", ".html"))})
        self.assertIn("run.yaml", printed.getvalue())  # the file of the example of an error, which is not there


if __name__ == "__main__":
    unittest.main()
