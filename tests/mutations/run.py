#!/usr/bin/env python3
"""Breaks the program on purpose, one way at a time, and demands that the tests notice.

usage: tests/mutations/run.py [--check] [MUTATION...]

Each tests/mutations/MUTATION.patch says what it breaks and, before its diff, which test must notice: `target:` an
executable of the build, `test:` the test cases, as Catch2 selects them. Without names all are tried. What is broken is a
copy of the tree, uncommitted changes to files that git tracks included: a git worktree in build/mutations, built there
with one build folder, both kept for the next run.

First the named tests must pass as things are. Then for each mutation: the patch must apply, the target must build, and the
tests must fail. Prints a table, and exits 1 if a mutation survives or cannot be tried. Part of tests/run.sh --nightly: ten
minutes on two cores, less with ccache. --check, which is: only whether each patch fits the sources as they are.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TREE = ROOT / "build" / "mutations" / "tree"
BUILD = TREE / "build" / "release"  # where ccache knows the objects of other builds
LONGEST_TEST = 300  # seconds; a mutation can make ranks wait for ever


@dataclasses.dataclass(frozen=True)
class Mutation:
    path: pathlib.Path
    target: str
    test: str

    @property
    def name(self):
        return self.path.stem


def read_mutation(path):
    head = path.read_text().split("\ndiff --git", 1)[0]
    found = dict(re.findall(r"^(target|test): (.+)$", head, re.MULTILINE))
    if set(found) != {"target", "test"}:
        sys.exit(f"{path}: found {sorted(found)}; accepted: a line `target: ...` and a line `test: ...` before the diff")
    return Mutation(path, **found)


def chosen_mutations(names):
    paths = [HERE / f"{name}.patch" for name in names] or sorted(HERE.glob("*.patch"))
    for path in paths:
        if not path.exists():
            known = ", ".join(sorted(known.stem for known in HERE.glob("*.patch")))
            sys.exit(f"run.py: found '{path.stem}'; accepted: {known}")
    return [read_mutation(path) for path in paths]


def git(*words, folder=ROOT):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def copy_tree():
    """The copy as the tree is now; files that did not change keep their times."""
    revision = git("stash", "create") or git("rev-parse", "HEAD")
    git("worktree", "prune")
    if TREE.exists():
        git("checkout", "--quiet", "--force", "--detach", revision, folder=TREE)
    else:
        TREE.parent.mkdir(parents=True, exist_ok=True)
        git("worktree", "add", "--quiet", "--detach", str(TREE), revision)


def environment():
    """With ccache, objects that are mutated and mended again are compiled once."""
    found = dict(os.environ)
    if shutil.which("ccache"):
        found |= {f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ("C", "CXX")}
        found |= {"CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}
    return found


def build(targets):
    """What the compiler said, or None where it succeeded."""
    made = subprocess.run(["cmake", "--build", BUILD, "--target", *targets], env=environment(), capture_output=True, text=True)
    return None if made.returncode == 0 else made.stdout + made.stderr


def configure():
    made = subprocess.run(["cmake", "--preset", "release"], cwd=TREE, env=environment(), capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(made.stdout + made.stderr)


def run_test(mutation):
    """(whether it passed, what to say of it)"""
    program = next(path for path in (BUILD / "tests").rglob(mutation.target) if path.is_file())
    try:
        ran = subprocess.run([program, mutation.test, "--warn", "NoTests"], cwd=TREE, capture_output=True, text=True,
                             timeout=LONGEST_TEST)
    except subprocess.TimeoutExpired:
        return False, f"still runs after {LONGEST_TEST} s"
    last = (ran.stdout.strip().splitlines() or ["no output"])[-1]
    if ran.returncode < 0:
        return False, f"ended by signal {-ran.returncode}"
    if "No test cases matched" in ran.stdout:
        sys.exit(f"{mutation.path}: no test of {mutation.target} is called '{mutation.test}'")
    return ran.returncode == 0, last


def try_mutation(mutation):
    """(whether the tests noticed, what to say of it)"""
    try:
        git("apply", str(mutation.path), folder=TREE)
    except subprocess.CalledProcessError as error:
        return False, "does not apply: " + error.stderr.strip()
    try:
        said = build([mutation.target])
        if said is not None:
            print(said)
            return False, "does not compile"
        passed, said = run_test(mutation)
        return not passed, "SURVIVED" if passed else said
    finally:
        git("checkout", "--quiet", "--force", ".", folder=TREE)


def check(mutations):
    """Exits 1 where a patch no longer fits."""
    for mutation in mutations:
        found = subprocess.run(["git", "apply", "--check", str(mutation.path)], cwd=ROOT, capture_output=True, text=True)
        if found.returncode != 0:
            sys.exit(f"{mutation.path}: {found.stderr.strip()}")
    print(f"{len(mutations)} mutations apply")


def main(names):
    if "--check" in names:
        return check(chosen_mutations([name for name in names if name != "--check"]))
    mutations = chosen_mutations(names)
    copy_tree()
    configure()
    said = build(sorted({mutation.target for mutation in mutations}))
    if said is not None:
        sys.exit(said + "the tree does not build as it is")
    for mutation in mutations:
        passed, said = run_test(mutation)
        if not passed:
            sys.exit(f"{mutation.target} '{mutation.test}' fails without any mutation: {said}")
    rows = []
    for mutation in mutations:
        begin = time.monotonic()
        noticed, said = try_mutation(mutation)
        rows.append((mutation.name, "red" if noticed else "NOT RED", f"{time.monotonic() - begin:.0f} s", mutation.target, said))
        print("  ".join(rows[-1]), flush=True)
    print()
    heads = ("mutation", "tests", "took", "target", "last line")
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    for row in [heads, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    missed = sum(row[1] != "red" for row in rows)
    print(f"\n{len(rows) - missed} of {len(rows)} mutations noticed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
