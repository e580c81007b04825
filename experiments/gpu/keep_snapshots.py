"""Keeps recordings of snapshots.py in the repository: the snapshots without the times, and of the statistics those that
`stagecraft allocator` says too. tests/libsim/allocator/recorded_snapshots_test.cpp replays them.

usage: keep_snapshots.py FOLDER          of what run.sh has written; they go to experiments/gpu/results/allocator, in place
                                         of kept ones of the same names
       keep_snapshots.py FOLDER CASE     the other way round: writes what is kept of a case as snapshots.py does
"""

import gzip
import json
import pathlib
import pickle
import shutil
import sys

KEPT = pathlib.Path(__file__).parent / "results" / "allocator"
LEFT_OUT = "time_us", "compile_context", "user_metadata"
# By the names of stagecraft.allocation/1.
STATS = {
    "allocated": "allocated_bytes.all.current",
    "peak_allocated": "allocated_bytes.all.peak",
    "reserved": "reserved_bytes.all.current",
    "peak_reserved": "reserved_bytes.all.peak",
    "requested": "requested_bytes.all.current",
    "active": "active_bytes.all.current",
    "inactive_split": "inactive_split_bytes.all.current",
    "segments": "segment.all.current",
    "retries": "num_alloc_retries",
    "ooms": "num_ooms",
    "device_alloc": "num_device_alloc",
    "device_free": "num_device_free",
}


def kept_cases():
    return json.loads((KEPT / "cases.json").read_text())


def keep(folder):
    kept = {case["name"]: case for case in kept_cases()}
    for path in sorted(folder.glob("*.pickle.gz")):
        name = path.name.removesuffix(".pickle.gz")
        case = json.loads((folder / f"{name}.json").read_text())
        with gzip.open(path) as file:
            snapshot = pickle.load(file)
        for entry in (entry for trace in snapshot["device_traces"] for entry in trace):
            for field in LEFT_OUT:
                entry.pop(field, None)
        (KEPT / path.name).write_bytes(gzip.compress(pickle.dumps(snapshot, protocol=4), 9, mtime=0))
        # The fraction that snapshots.py set; the statistics have no more of it than the bytes that it allows.
        fraction = case["capacity"] / case["total"] if case["capacity"] < case["total"] else None
        kept[name] = {"name": name, "torch": case["torch"], "gpu": case["gpu"], "settings": case["settings"],
                      "ranks": case.get("ranks", 0), "capacity": case["total"], "fraction": fraction, "died": case["died"],
                      "end": {ours: case["stats"][its] for ours, its in STATS.items()}}
    (KEPT / "cases.json").write_text(json.dumps(sorted(kept.values(), key=lambda case: case["name"]), indent=1) + "\n")


def write_kept(folder, name):
    case = next(case for case in kept_cases() if case["name"] == name)
    total = case["capacity"]
    stats = {its: case["end"][ours] for ours, its in STATS.items()}
    said = case | {"capacity": int((case["fraction"] or 1) * total), "total": total, "stats": stats}
    shutil.copy(KEPT / f"{name}.pickle.gz", folder)
    (folder / f"{name}.json").write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    write_kept(folder, sys.argv[2]) if len(sys.argv) > 2 else keep(folder)
