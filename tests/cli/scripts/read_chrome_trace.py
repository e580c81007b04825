"""Reads Chrome trace events as a viewer does, and holds them against the trace they were made from.

Used by export_readers.py.

Slices of a thread nest and are sorted; arrows come in pairs, each end inside a slice of its thread; every op of the
trace is there once, to the nanosecond; counters follow the memory of the trace.
"""

import bisect
import collections
import json

import h5py


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def nested_slices(events):
    """Slices by thread as (start, end, event); fails where two overlap without one holding the other."""
    threads = collections.defaultdict(list)
    for event in events:
        if event["ph"] != "X":
            continue
        start = nanoseconds(event["ts"])
        threads[event["pid"], event["tid"]].append((start, start + nanoseconds(event["dur"]), event))
    for slices in threads.values():
        assert [s[0] for s in slices] == sorted(s[0] for s in slices), "slices are not sorted"
        around = []
        for start, end, event in slices:
            while around and around[-1] <= start:
                around.pop()
            assert not around or end <= around[-1], ("slices overlap", event)
            around.append(end)
    return threads


def check_arrows(events, threads):
    ends = collections.defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            ends[event["id"]].append(event)
    starts = {thread: [s[0] for s in slices] for thread, slices in threads.items()}
    for pair in ends.values():
        assert [event["ph"] for event in pair] == ["s", "f"], pair
        assert pair[1]["bp"] == "e"
        found = []
        for event in pair:
            time = nanoseconds(event["ts"])
            thread = event["pid"], event["tid"]
            start, end, around = threads[thread][bisect.bisect_right(starts[thread], time) - 1]
            assert start <= time < max(end, start + 1), ("an arrow ends outside a slice", event)
            found.append(around)
        send, receive = found
        assert send["name"].startswith("send.") and receive["name"] == send["name"].replace("send", "receive")
        assert send["args"]["microbatch"] == receive["args"]["microbatch"]
        assert send["args"]["bytes"] == receive["args"]["bytes"]
        assert send["pid"] != receive["pid"]
    return len(ends)


def main(events_file, trace_file, all_arrows):
    """`all_arrows`: every send has one, because every rank is in the trace."""
    with open(events_file, encoding="utf-8") as file:
        document = json.load(file)
    events = document["traceEvents"]
    threads = nested_slices(events)
    arrows = check_arrows(events, threads)
    processes = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    trace = h5py.File(trace_file, "r")
    assert document["otherData"]["plan"] == trace.attrs["plan"].decode()
    streams = [name.decode() for name in trace["names/stream"]]
    sends = 0
    for rank in trace["ranks"]:
        group, pid = trace["ranks"][rank], int(rank) + 1
        assert processes[pid].startswith(f"stage {group.attrs['stage']}")
        ops = {name: column[:] for name, column in group["ops"].items()}
        sends += sum(streams[stream].startswith("send") for stream in ops["stream"])
        expected = collections.Counter(
            (stream + 1, (start + 500) // 1000, (start + duration + 500) // 1000)
            for start, duration, stream in zip(*(ops[k].tolist() for k in ("start", "duration", "stream")))
        )
        written = collections.Counter(
            (tid, start, end) for (p, tid), slices in threads.items() if p == pid for start, end, _ in slices
        )
        assert not expected - written, ("ops are missing", list((expected - written))[:3])
        memory = {name: column[:].tolist() for name, column in group["memory"].items()}
        counters = [e for e in events if e["ph"] == "C" and e["pid"] == pid]
        assert [nanoseconds(e["ts"]) for e in counters] == [(t + 500) // 1000 for t in memory["time"]]
        for category, column in memory.items():
            if category != "time":
                assert [e["args"][category] for e in counters] == column
    print(f"{sum(map(len, threads.values()))} slices, {arrows} arrows of {sends} sends")
    assert arrows == sends or not all_arrows and arrows > 0, "a send has no arrow"

