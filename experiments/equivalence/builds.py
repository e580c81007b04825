"""The two programs that are held against each other."""

import dataclasses
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclasses.dataclass
class Build:
    folder: pathlib.Path  # of CMake
    source: pathlib.Path  # the tree that it was made from

    def program(self, name):
        return str(self.folder / "apps" / name / name)


def existing_build(folder):
    folder = pathlib.Path(folder).resolve()
    for line in (folder / "CMakeCache.txt").read_text().splitlines():
        if line.startswith("CMAKE_HOME_DIRECTORY:"):
            return Build(folder, pathlib.Path(line.split("=", 1)[1]))
    raise SystemExit(f"{folder} is not a build folder of CMake")


def make(source, jobs):
    """Builds both programs of a tree with the preset `plain`, with ccache if there is one; returns the build folder."""
    environment = dict(os.environ)
    if shutil.which("ccache"):
        environment |= {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
                        "CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1"}
    build = ["cmake", "--build", "build/plain", "-j", str(jobs), "--target", "stagecraft", "stagecraft-exec"]
    for command in (["cmake", "--preset", "plain"], build):
        subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.DEVNULL)
    return source / "build/plain"


def base_build(commit, jobs):
    """Builds a commit in a git worktree below build/."""
    name = subprocess.run(["git", "rev-parse", "--verify", commit + "^{commit}"], cwd=ROOT, check=True,
                          capture_output=True, text=True).stdout.strip()
    tree = ROOT / "build" / "equivalence" / f"base-{name[:12]}"
    if not tree.exists():
        subprocess.run(["git", "worktree", "prune"], cwd=ROOT, check=True)
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), name], cwd=ROOT, check=True)
    return make(tree, jobs)
