"""Holds every #include against the layers of the design.

usage: layers.py SOURCE

A folder of libsim uses itself and folders above it in libsim/CMakeLists.txt; only `config` uses yaml-cpp and only
`trace`, and checkpoints, HDF5, and `libexec/comm` MPI. libsim knows nothing of libexec, apps, CUDA, NCCL and MPI. libexec uses some of libsim (below). Nothing
uses apps but apps, and nothing that is installed uses tests. Exits 1 and names each line that breaks a rule.
"""

import pathlib
import re
import sys

EXECUTOR_USES = {"units", "config", "model", "plan", "hardware", "trace"}
DEVICE = re.compile(r"cuda|cublas|nccl|mpi(\.h|/)|driver_types|nvtx|nvToolsExt", re.IGNORECASE)
OWNED = {
    re.compile(r"yaml-cpp/"): {"libsim/config"},
    re.compile(r"mpi\.h|mpi/"): {"libexec/comm"},
    re.compile(r"hdf5|H5\w*\.h"): {"libsim/trace", "libexec/checkpoint"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def broken_rule(folder, included, order):
    """Why `folder` (like libsim/plan) may not include `included`, or None."""
    part, used = folder.split("/")[0], included.split("/")
    for library, owners in OWNED.items():
        if library.match(included) and folder not in owners:
            return f"only {' and '.join(sorted(owners))} uses this library"
    if part == "libsim" and (used[0] == "libexec" or DEVICE.match(included)):
        return "libsim plans and predicts; it runs on a laptop"
    if used[0] == "apps" and part != "apps" or used[0] == "tests":
        return f"{part} does not use {used[0]}"
    if used[0] != "libsim" or len(used) < 3:
        return None
    if part == "libexec" and used[1] not in EXECUTOR_USES:
        return "of libsim, libexec uses " + ", ".join(sorted(EXECUTOR_USES))
    if part == "libsim" and order.index(used[1]) > order.index(folder.split("/")[1]):
        return f"libsim/{used[1]} comes after {folder} in libsim/CMakeLists.txt"
    return None


def main(root):
    order = re.findall(r"^add_subdirectory\((\w+)\)", (root / "libsim/CMakeLists.txt").read_text(), re.MULTILINE)
    files = [
        path
        for part in ("libsim", "libexec", "apps")
        for path in sorted((root / part).rglob("*"))
        if path.suffix in (".cpp", ".hpp", ".cu", ".cuh")
    ]
    broken = 0
    for path in files:
        folder = "/".join(path.relative_to(root).parts[:2])
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            include = INCLUDE.match(line)
            reason = include and broken_rule(folder, include[1], order)
            if reason:
                broken += 1
                print(f"{path.relative_to(root)}:{number}: includes {include[1]}: {reason}")
    print(f"{len(files)} files, {broken} includes that break a rule")
    return 1 if broken or not files else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
