#!/usr/bin/env python3
"""Records which fields Megatron-Bridge's configuration classes have, for tests of the recipes that `plan --kit` writes.

Reads the sources of two wheels without importing them: they need CUDA.

    pip download --no-deps megatron-bridge==0.3.1 megatron-core==0.16.1 -d wheels
    experiments/launchable/signatures.py wheels/*.whl > tests/cli/scripts/megatron_bridge.json
"""

import ast
import json
import sys
import zipfile

CLASSES = ["ConfigContainer", "GPTModelProvider", "MLAModelProvider", "TrainingConfig", "OptimizerConfig",
           "DistributedDataParallelConfig", "SchedulerConfig", "GPTDatasetConfig", "LoggerConfig", "TokenizerConfig",
           "CheckpointConfig", "RNGConfig", "MixedPrecisionConfig"]


def classes_of(wheels):
    """The class definitions of all modules: by name, those of Megatron-Bridge first, as (module, node, names)."""
    found = {}
    for wheel in sorted(wheels, key=lambda path: "bridge" not in path):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if not name.endswith(".py"):
                    continue
                tree = ast.parse(archive.read(name))
                renamed = {alias.asname: alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
                           for alias in node.names if alias.asname}
                for node in tree.body:
                    if isinstance(node, ast.ClassDef):
                        found.setdefault(node.name, []).append((name[:-3].replace("/", "."), node, renamed))
    return found


def fields_of(found, module, node, renamed):
    names = []
    for base in node.bases:
        called = base.id if isinstance(base, ast.Name) else getattr(base, "attr", "")
        called = renamed.get(called, called)
        for other in found.get(called, []):
            if other[1] is not node:
                names += fields_of(found, *other)
                break
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            names.append(line.target.id)
        if isinstance(line, ast.FunctionDef) and line.name == "__init__":
            names += [argument.arg for argument in line.args.args[1:] + line.args.kwonlyargs]
    return names


def main():
    found = classes_of(sys.argv[1:])
    versions = sorted(wheel.split("/")[-1].split("-cp")[0].split("-py")[0] for wheel in sys.argv[1:])
    recorded = {"packages": versions, "classes": {}}
    for name in CLASSES:
        module, node, renamed = found[name][0]
        fields = sorted(set(fields_of(found, module, node, renamed)))
        recorded["classes"][name] = {"module": module, "fields": " ".join(fields)}
    json.dump(recorded, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
