"""Reads the files of PyTorch's profiler that an export wrote as HTA reads them, and holds them against the trace.

Used by export_readers.py.

Per rank: what takes time and is not a wait is a kernel once, to the nanosecond, on its stream; kernels of a stream do not
overlap; what goes to other ranks has a name that begins with nccl, and a collective has the size of its group.
"""

import collections
import gzip
import json
import re


def nanoseconds(picoseconds):
    return (picoseconds + 500) // 1000


def check_streams(kernels):
    streams = collections.defaultdict(list)
    for kernel in kernels:
        streams[kernel["args"]["stream"]].append((round(kernel["ts"] * 1000), round(kernel["dur"] * 1000)))
    for events in streams.values():
        events.sort()
        for (start, duration), (after, _) in zip(events, events[1:]):
            assert start + duration <= after, "kernels of a stream overlap"


def check_rank(path, group, names, job, tensor):
    text = gzip.decompress(path.read_bytes()).decode()
    rank = int(re.search(r'"rank":\s+(\d+)', text.splitlines()[0]).group(1))  # as HTA looks for it
    trace = json.loads(text)
    assert trace["distributedInfo"] == {"backend": "nccl", "rank": rank, "world_size": job}
    assert path.name.endswith(f".{rank}.json.gz")
    kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    ops = {name: column[:].tolist() for name, column in group["ops"].items()}
    expected = []
    for i, duration in enumerate(ops["duration"]):
        name = names["op"][ops["op"][i]]
        if duration == 0 or name.endswith(".wait"):
            continue
        start = nanoseconds(ops["start"][i])
        expected.append((name, start, nanoseconds(ops["start"][i] + duration) - start, ops["stream"][i]))
    found = [(event["name"].split()[-1], round(event["ts"] * 1000), round(event["dur"] * 1000), event["tid"])
             for event in kernels]
    assert found == expected
    communication = 0
    for kernel in kernels:
        stream = names["stream"][kernel["args"]["stream"]]
        is_nccl = kernel["name"].startswith("nccl")
        assert is_nccl or stream == "compute", kernel
        communication += is_nccl
        if is_nccl and stream == "tensor_parallel":
            assert kernel["args"]["Group size"] == tensor, kernel
    check_streams(kernels)
    steps = [event for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep#")]
    ends = [start + duration for _, start, duration, _ in expected]
    assert len(steps) == 1 and round(steps[0]["dur"] * 1000) >= max(ends)
    assert communication > 0
    return len(kernels)


def main(paths, trace, job, tensor):
    names = {kind: [name.decode() for name in trace["names"][kind]] for kind in ("op", "stream")}
    groups = [trace["ranks"][rank] for rank in sorted(trace["ranks"], key=int)]
    assert len(paths) == len(groups)
    counts = [check_rank(path, group, names, job, tensor) for path, group in zip(paths, groups)]
    print(f"{sum(counts)} kernels of {len(counts)} ranks")
