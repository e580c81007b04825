#!/usr/bin/env python3
"""Lists the CUDA kernels that changed since a commit: each .cu of libexec/kernels/cuda that differs, or that includes,
however indirectly, a file of libexec that differs. If a kernel includes changed files of libsim only, the first such kernel
stands for all: the files compile for a device, or do not.

usage: tests/changed_kernels.py COMMIT

All of them if the commit is not known here, as in a shallow clone.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def changed_files(commit):
    """Paths that differ from the commit, or None if it is not known."""
    found = subprocess.run(["git", "diff", "--name-only", commit], cwd=ROOT, capture_output=True, text=True)
    return set(found.stdout.split()) if found.returncode == 0 else None


def included(path, seen):
    """Adds to `seen` the path and all that it includes of the repository."""
    if path not in seen and (ROOT / path).is_file():
        seen.add(path)
        for name in INCLUDE.findall((ROOT / path).read_text()):
            included(name, seen)
    return seen


def main(commit):
    changed = changed_files(commit)
    has_one_for_libsim = False
    for kernel in sorted((ROOT / "libexec/kernels/cuda").glob("*.cu")):
        path = str(kernel.relative_to(ROOT))
        found = {path} if changed is None else included(path, set()) & changed
        is_own = any(name.startswith("libexec/") for name in found)
        if is_own or (found and not has_one_for_libsim):
            has_one_for_libsim = has_one_for_libsim or not is_own
            print(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tests/changed_kernels.py COMMIT")
    main(sys.argv[1])
