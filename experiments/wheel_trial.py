"""Uses an installed wheel of stagecraft as a new user would: from an empty folder, with nothing but its packages.

usage: wheel_trial.py
Exits 1 if something is missing or wrong.
"""

import importlib.metadata
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

h5py_first = """
import h5py, stagecraft
assert h5py.File
"""

stagecraft_first = """
import stagecraft, os, tempfile
cfg = stagecraft.load("stagecraft:configs/paper/22b-full.yaml")
path = os.path.join(tempfile.mkdtemp(), "t.h5")
stagecraft.write_trace(cfg, path)
import h5py
with h5py.File(path) as file:
    ends = [max(rank["ops/start"][:] + rank["ops/duration"][:]) for rank in file["ranks"].values()]
assert max(ends) == round(stagecraft.simulate(cfg).iteration_seconds * 1e12), ends
trace = stagecraft.read_trace(path)
assert len(trace.ops) and (trace.ops["start"] + trace.ops["duration"]).max() == max(ends)
"""


def page_examples():
    """The Python examples of the package's page, as one program, in the order of the page."""
    page = importlib.metadata.metadata("stagecraft").get_payload()
    return re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


def main():
    run = "stagecraft:configs/paper/175b-present.yaml"
    import stagecraft

    package = pathlib.Path(stagecraft.__file__).parent
    assert pathlib.Path(sys.prefix) in package.parents, package
    predicted = stagecraft.simulate(stagecraft.load(run)).to_dict()
    path = package / "configs/paper/175b-present.yaml"
    printed = subprocess.run(["stagecraft", "simulate", path, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(printed.stdout) == predicted
    named = stagecraft.load({"model": "gpt3-175b", "system": "selene-a100", "batch": {"global": 64},
                             "parallel": {"tensor": 8, "pipeline": 8}, "schedule": "1f1b"})
    assert named["model.layers"] == 96  # Brown et al. 2020, table 2.1
    for text in (h5py_first + stagecraft_first, stagecraft_first):
        subprocess.run([sys.executable, "-c", text], check=True, cwd=tempfile.gettempdir())
    examples = page_examples()
    assert len(examples) >= 5, examples
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-I", "-W", "error", "-c", "\n".join(examples)]
        subprocess.run(words, check=True, cwd=folder, env={**os.environ, "MPLBACKEND": "Agg"})
    assert os.listdir() == [], os.listdir()
    print(f"{package}: works, {stagecraft.__version__.splitlines()[0]}")


if __name__ == "__main__":
    main()
