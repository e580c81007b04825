"""Exports traces and reads them with what others read them with.

usage: export_readers.py STAGECRAFT CONFIGS

Chrome events: Python's json and the rules of the viewers. CSV: Python's csv. Memory snapshots: Python's pickle and the
rules of PyTorch's viewer. Profiles of Kineto: Python's gzip and json, and HTA's rules. Chakra: decoded by its schema. All but the last are held against the trace as h5py reads it.
Exits 77 without h5py.
"""

import csv
import gzip
import pathlib
import subprocess
import sys
import tempfile

try:
    import h5py
except ImportError:
    print("python3-h5py is not installed")
    sys.exit(77)
import read_chakra
import read_chrome_trace
import read_kineto
import read_memory_snapshot

CASES = [("175b-present", ()), ("22b-present", ("--detail", "op")), ("530b-present-2240", ("--ranks", "0,1,34"))]


def check_csv(ops_file, memory_file, trace):
    names = {kind: [name.decode() for name in trace["names"][kind]] for kind in ("op", "phase", "stream")}
    with open(ops_file, newline="") as file:
        rows = list(csv.DictReader(file))
    with open(memory_file, newline="") as file:
        states = list(csv.DictReader(file))
    row, state = iter(rows), iter(states)
    for rank in sorted(trace["ranks"], key=int):
        group = trace["ranks"][rank]
        ops = {name: column[:].tolist() for name, column in group["ops"].items()}
        for i in range(len(ops["start"])):
            found = next(row)
            assert (int(found["rank"]), int(found["stage"])) == (int(rank), group.attrs["stage"])
            assert (int(found["start_ps"]), int(found["duration_ps"])) == (ops["start"][i], ops["duration"][i])
            for kind, texts in names.items():
                assert found[kind] == texts[ops[kind][i]]
            for place in ("layer", "microbatch", "chunk"):
                assert found[place] == ("" if ops[place][i] < 0 else str(ops[place][i]))
            assert (int(found["bytes"]), int(found["flops"])) == (ops["bytes"][i], ops["flops"][i])
        memory = {name: column[:].tolist() for name, column in group["memory"].items()}
        reserved = group["allocator"]["reserved"][:].tolist() if "allocator" in group else []
        for i, time in enumerate(memory["time"]):
            found = next(state)
            assert int(found["time_ps"]) == time
            assert all(int(found[name]) == column[i] for name, column in memory.items() if name != "time")
            assert found["reserved"] == (str(reserved[i]) if reserved else "")
    assert next(row, None) is None and next(state, None) is None
    print(f"{len(rows)} rows of ops, {len(states)} of memory")


def main(program, configs):
    with tempfile.TemporaryDirectory(prefix="stagecraft-exports-") as name:
        folder = pathlib.Path(name)

        def stagecraft(*arguments):
            subprocess.run([program, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

        for config, options in CASES:
            trace = folder / f"{config}.h5"
            stagecraft("simulate", pathlib.Path(configs, f"{config}.yaml"), "--trace", trace, *options)
            stagecraft("export", trace, "--format", "chrome", "-o", folder / "events.json")
            read_chrome_trace.main(folder / "events.json", trace, config != "530b-present-2240")
            stagecraft("export", trace, "--format", "csv", "-o", folder / "ops.csv")
            stagecraft("export", trace, "--format", "csv", "--memory", "-o", folder / "memory.csv")
            stagecraft("export", trace, "--format", "memory-snapshot", "-o", folder / "memory.pickle")
            with h5py.File(trace) as file:
                check_csv(folder / "ops.csv", folder / "memory.csv", file)
                read_memory_snapshot.main(folder / "memory.pickle", file)
        stagecraft("export", folder / "175b-present.h5", "--format", "chakra", "-o", folder / "175b")
        read_chakra.main(folder / "175b", 64)
        stagecraft("export", folder / "22b-present.h5", "--format", "chakra", "-o", folder / "22b")
        for config, options, job in (("22b-present", (), 8), ("175b-present", ("--ranks", "0,5"), 64)):
            trace = folder / "op.h5"
            stagecraft("simulate", pathlib.Path(configs, f"{config}.yaml"), "--trace", trace, "--detail", "op", *options)
            stagecraft("export", trace, "--format", "kineto", "-o", folder / f"kineto-{config}")
            profiles = folder.glob(f"kineto-{config}.*.json.gz")
            with h5py.File(trace) as file:
                read_kineto.main(sorted(profiles, key=lambda path: int(path.suffixes[-3][1:])), file, job, tensor=8)
        stagecraft("export", folder / "22b-present.h5", "--format", "chrome", "-o", folder / "events.json")
        stagecraft("export", folder / "22b-present.h5", "--format", "chrome", "-o", folder / "events.json.gz")
        assert gzip.decompress((folder / "events.json.gz").read_bytes()) == (folder / "events.json").read_bytes()
        # A rank has an eighth of 2048 tokens x microbatch 4 x 6144 values of 2 bytes.
        read_chakra.main(folder / "22b", 8, gathered=2048 * 4 * 6144 * 2 // 8)
        ring = folder / "ring.h5"
        changes = ("tensor=2", "context=4", "data=1", "pipeline=1")
        sets = [f"parallel.{change}" for change in changes] + ["model.layers=4", "batch.global=4", "recompute=none"]
        example = pathlib.Path(configs, "..", "examples", "llama2-70b-64-h100.yaml")
        options = [word for change in sets for word in ("--set", change)]
        stagecraft("simulate", example, *options, "--detail", "op", "--trace", ring)
        stagecraft("export", ring, "--format", "chakra", "-o", folder / "ring")
        # A rank has a quarter of 4096 tokens and half of 8 heads, of keys and of values. It passes them on three times
        # for each of 4 layers and 4 microbatches; what the backward passes on is named otherwise.
        heads = 1024 * 4 * 128 * 2 * 2
        read_chakra.main(folder / "ring", 8, gathered=1024 * 8192 * 2 // 2, shifted=(heads, 3 * 4 * 4))


if __name__ == "__main__":
    main(*sys.argv[1:])
