#!/usr/bin/env python3
"""Lists what changed since a commit, one path a line.

usage: tests/changed.py COMMIT sources|kernels

sources  all files that differ in more than #include lines, comment lines and blank lines; a file that was moved is compared
         with what it was.
kernels  each .cu of libexec/kernels/cuda that differs so, or that includes, however indirectly, a file of libexec that does.
         If a kernel includes changed files of libsim only, the first such kernel stands for all: the files compile for a
         device, or do not.

All of them if the commit is not known here, as in a shallow clone.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


def changed_files(commit):
    """Paths that differ from the commit."""
    found = git("diff", "-M", "-I^#include", "--ignore-blank-lines", "-I^[[:space:]]*//", "--diff-filter=d", "--numstat", "-z", commit)
    if found.returncode != 0:
        return set(git("ls-files").stdout.split())
    changed, fields = set(), iter(found.stdout.split("\0")[:-1])
    for field in fields:
        added, removed, path = field.split("\t")
        if not path:  # moved: the old and the new path follow
            next(fields)
            path = next(fields)
        if (added, removed) != ("0", "0"):
            changed.add(path)
    return changed


def included(path, seen):
    """Adds to `seen` the path and all that it includes of the repository."""
    if path not in seen and (ROOT / path).is_file():
        seen.add(path)
        for name in INCLUDE.findall((ROOT / path).read_text()):
            included(name, seen)
    return seen


def changed_kernels(changed):
    has_one_for_libsim = False
    for kernel in sorted((ROOT / "libexec/kernels/cuda").rglob("*.cu")):
        path = str(kernel.relative_to(ROOT))
        found = included(path, set()) & changed
        is_own = any(name.startswith("libexec/") for name in found)
        if is_own or (found and not has_one_for_libsim):
            has_one_for_libsim = has_one_for_libsim or not is_own
            yield path


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in ("sources", "kernels"):
        sys.exit("usage: tests/changed.py COMMIT sources|kernels")
    changed = changed_files(sys.argv[1])
    for path in sorted(changed) if sys.argv[2] == "sources" else changed_kernels(changed):
        print(path)
