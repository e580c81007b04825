"""Breaks each rule of layers.py once, in trees made for it."""

import pathlib
import subprocess
import sys
import tempfile

# file, included, whether that is allowed
CASES = [
    ("libsim/plan/a.cpp", '"libsim/model/op.hpp"', True),
    ("libsim/plan/a.cpp", '"libsim/plan/b.hpp"', True),
    ("libsim/model/a.hpp", '"libsim/plan/b.hpp"', False),
    ("libsim/config/a.cpp", "<yaml-cpp/yaml.h>", True),
    ("libsim/plan/a.cpp", "<yaml-cpp/yaml.h>", False),
    ("libsim/hdf5/a.cpp", "<hdf5.h>", True),
    ("libsim/trace/a.cpp", "<hdf5.h>", False),
    ("libexec/checkpoint/a.cpp", "<hdf5.h>", False),
    ("libexec/executor/a.cpp", '"libexec/comm/b.hpp"', True),
    ("libexec/comm/a.cpp", '"libexec/executor/b.hpp"', False),
    ("apps/stagecraft/a.cpp", "<hdf5.h>", False),
    ("libsim/plan/a.cpp", '"libexec/memory/a.hpp"', False),
    ("libsim/plan/a.cpp", "<cuda_runtime.h>", False),
    ("libsim/plan/a.cpp", "<cublasLt.h>", False),
    ("libsim/plan/a.cpp", "<nccl.h>", False),
    ("libsim/plan/a.cpp", "<mpi.h>", False),
    ("libsim/plan/a.cpp", '"apps/stagecraft/a.hpp"', False),
    ("libsim/plan/a.cpp", '"tests/cli/a.hpp"', False),
    ("libexec/comm/a.cpp", "<mpi.h>", True),
    ("libexec/executor/a.cpp", "<mpi.h>", False),
    ("libexec/comm/a.cu", "<cuda_runtime.h>", True),
    ("libexec/comm/a.cpp", '"libsim/trace/a.hpp"', True),
    ("libexec/comm/a.cpp", '"libsim/engine/a.hpp"', False),
    ("libexec/comm/a.cpp", '"libsim/cost/a.hpp"', False),
    ("apps/stagecraft-exec/a.cpp", '"libsim/cost/a.hpp"', True),
]
ORDERS = {
    "libsim": ["units", "host", "config", "hdf5", "model", "plan", "cost", "trace", "engine"],
    "libexec": ["kernels", "memory", "comm", "executor"],
}

# Files with what each includes, and the modules that need each other.
CIRCLES = [
    ({"libsim/plan/a.hpp": "libsim/plan/b.hpp", "libsim/plan/b.hpp": "libsim/plan/c.hpp"}, None),
    ({"libsim/plan/a.cpp": "libsim/plan/a.hpp", "libsim/plan/b.cpp": "libsim/plan/a.hpp"}, None),
    ({"libsim/plan/a.hpp": "libsim/plan/b.hpp", "libsim/plan/b.cpp": "libsim/plan/a.hpp"}, "plan/a plan/b"),
    (
        {
            "libsim/plan/a.cpp": "libsim/plan/b.hpp",
            "libsim/plan/b.cpp": "libsim/plan/c.hpp",
            "libsim/plan/c.hpp": "libsim/plan/a.hpp",
        },
        "plan/a plan/b plan/c",
    ),
]


def checked(files):
    """What layers.py says of a tree of files, each with one include."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for file, included in files.items():
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text(f"// A comment.\n#include {included}\n")
        for part, order in ORDERS.items():
            (root / part).mkdir(exist_ok=True)
            (root / part / "CMakeLists.txt").write_text("".join(f"add_subdirectory({name})\n" for name in order))
        return subprocess.run([sys.executable, layers, root], capture_output=True, text=True, check=False)


layers, wrong = pathlib.Path(__file__).with_name("layers.py"), 0
for file, included, allowed in CASES:
    result = checked({file: included})
    named = f"{file}:2: includes {included[1:-1]}" in result.stdout
    if (result.returncode == 0) != allowed or named == allowed:
        wrong += 1
        print(f"{file} including {included}: expected {'no' if allowed else 'a'} complaint; got:")
        print(result.stdout + result.stderr)
for files, circle in CIRCLES:
    result = checked({file: f'"{included}"' for file, included in files.items()})
    line = "need each other: " + ", ".join("libsim/" + name for name in circle.split()) if circle else None
    if (result.returncode == 0) != (circle is None) or line and line not in result.stdout.splitlines():
        wrong += 1
        print(f"{files}: expected {line or 'no complaint'}; got:")
        print(result.stdout + result.stderr)
sys.exit(1 if wrong else 0)
