#!/usr/bin/env python3
"""Takes the picture of a report that the pages show, with the commands of the README.

usage: picture.py STAGECRAFT [PICTURE]

PICTURE: the file to write, experiments/figures/report-175b.png by default. Needs Chromium.
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))
from devtools import Browser  # noqa: E402

WIDTH, HEIGHT = 1280, 1440


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    picture = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) == 3 else HERE / "report-175b.png"
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        for arguments in (["simulate", ROOT / "configs/paper/175b-present.yaml", "--trace", "175b.h5"],
                          ["report", "175b.h5", "-o", "175b.html", "--title", "GPT-3 175B on 64 A100s"]):
            subprocess.run([program, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        browser.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        browser.open(pathlib.Path(folder) / "175b.html")
        browser.settle()
        browser.screenshot(picture)


if __name__ == "__main__":
    main()
