"""Holds every #include against the layers of the design.

usage: layers.py SOURCE

A folder of libsim or libexec uses itself and folders above it in libsim/CMakeLists.txt or libexec/CMakeLists.txt.
Some libraries are included by one folder only (OWNED). libsim knows nothing of libexec, apps, CUDA, NCCL and MPI.
libexec uses some of libsim (EXECUTOR_USES). Nothing uses apps but apps, and nothing that is installed uses tests.
No modules (a header with its sources) need each other, in one folder or in several.
Exits 1 and names each line that breaks a rule, and each circle of modules.
"""

import pathlib
import re
import sys

EXECUTOR_USES = {"units", "host", "config", "allocator", "hdf5", "model", "program", "schedule", "training", "ranks", "plan", "memory",
                 "hardware", "trace"}
DEVICE = re.compile(r"cuda|cublas|nccl|mpi(\.h|/)|driver_types|nvtx|nvToolsExt", re.IGNORECASE)
OWNED = {
    re.compile(r"yaml-cpp/"): {"libsim/config"},
    re.compile(r"mpi\.h|mpi/"): {"libexec/comm"},
    re.compile(r"hdf5|H5\w*\.h"): {"libsim/hdf5"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def broken_rule(folder, included, orders):
    """Why `folder` (like libsim/plan) may not include `included`, or None."""
    part, used = folder.split("/")[0], included.split("/")
    for library, owners in OWNED.items():
        if library.match(included) and folder not in owners:
            return f"only {' and '.join(sorted(owners))} uses this library"
    if part == "libsim" and (used[0] == "libexec" or DEVICE.match(included)):
        return "libsim plans and predicts; it runs on a laptop"
    if used[0] == "apps" and part != "apps" or used[0] == "tests":
        return f"{part} does not use {used[0]}"
    if len(used) < 3 or used[0] not in orders:
        return None
    if part == "libexec" and used[0] == "libsim" and used[1] not in EXECUTOR_USES:
        return "of libsim, libexec uses " + ", ".join(sorted(EXECUTOR_USES))
    order = orders[used[0]]
    if part == used[0] and order.index(used[1]) > order.index(folder.split("/")[1]):
        return f"{used[0]}/{used[1]} comes after {folder} in {part}/CMakeLists.txt"
    return None


def circles(uses):
    """Sets of modules that need each other; `uses`: the modules that each one needs."""
    reached = {}
    for module in uses:
        found, rest = set(), [module]
        while rest:
            for needed in uses.get(rest.pop(), ()):
                if needed not in found:
                    found.add(needed)
                    rest.append(needed)
        reached[module] = found
    return {
        frozenset(other for other in found if module in reached.get(other, ()))
        for module, found in reached.items()
        if module in found
    }


def main(root):
    orders = {
        part: re.findall(r"^add_subdirectory\((\w+)\)", (root / part / "CMakeLists.txt").read_text(), re.MULTILINE)
        for part in ("libsim", "libexec")
    }
    files = [
        path
        for part in ("libsim", "libexec", "apps")
        for path in sorted((root / part).rglob("*"))
        if path.suffix in (".cpp", ".hpp", ".cu", ".cuh")
    ]
    broken = 0
    uses = {}
    for path in files:
        name = path.relative_to(root)
        folder = "/".join(name.parts[:2])
        own = str(name.with_suffix(""))
        needed = uses.setdefault(own, set())
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            include = INCLUDE.match(line)
            if not include:
                continue
            module = str(pathlib.Path(include[1]).with_suffix(""))
            if module != own:
                needed.add(module)
            reason = broken_rule(folder, include[1], orders)
            if reason:
                broken += 1
                print(f"{name}:{number}: includes {include[1]}: {reason}")
    found = sorted(map(sorted, circles(uses)))
    for circle in found:
        print("need each other:", ", ".join(circle))
    print(f"{len(files)} files, {broken} includes that break a rule, {len(found)} circles")
    return 1 if broken or found or not files else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
