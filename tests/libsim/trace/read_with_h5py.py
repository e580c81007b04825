#!/usr/bin/python3
"""Reads traces with h5py as libsim/trace/SCHEMA.md describes them, and trusts the page, not the writer.

    read_with_h5py.py CHUNK.h5 OP.h5 PEAKS.json

The two traces are of one plan, at chunk and at op detail. PEAKS.json: {"plan", "iteration_ps", "stages": [{"peak_bytes",
"peak_at_ps", "activation_peak_bytes", "at_peak": {category: bytes}}]} as the simulator gives them. Exit code 77: no h5py.
"""
import json
import sys

try:
    import h5py
    import numpy
except ImportError as missing:
    print(f"skipped: {missing} (Debian: python3-h5py)")
    sys.exit(77)

UNITS = {"start": "ps", "duration": "ps", "op": "index into /names/op", "phase": "index into /names/phase",
         "stream": "index into /names/stream", "layer": "number", "microbatch": "number", "chunk": "number",
         "bytes": "byte", "flops": "FLOP"}
CATEGORIES = ["parameters", "gradients", "optimizer", "activations", "recomputed", "communication", "gathered", "workspace"]


def check_columns(group, units):
    assert set(group) == set(units), set(group) ^ set(units)
    lengths = set()
    for name, unit in units.items():
        column = group[name]
        assert column.ndim == 1 and column.dtype == numpy.dtype("<i8"), (column.name, column.dtype)
        assert column.chunks is not None and column.shuffle and column.compression == "gzip", column.name
        assert column.attrs["unit"].decode() == unit, column.name
        lengths.add(len(column))
    assert len(lengths) == 1, (group.name, lengths)


def check_rank(group, names, expected):
    check_columns(group["ops"], UNITS)
    check_columns(group["memory"], {"time": "ps", **dict.fromkeys(CATEGORIES, "byte")})
    ops = {name: group["ops"][name][()] for name in UNITS}
    for name in ("op", "phase", "stream"):
        assert ops[name].min() >= 0 and ops[name].max() < len(names[name])
    assert ops["duration"].min() >= 0 and ops["start"].min() >= 0
    for stream in range(len(names["stream"])):
        mine = ops["stream"] == stream
        order = numpy.lexsort((ops["duration"][mine], ops["start"][mine]))
        start, end = ops["start"][mine][order], (ops["start"] + ops["duration"])[mine][order]
        assert (start[1:] >= end[:-1]).all(), f"{group.name}: {names['stream'][stream]} overlaps itself"

    memory = {name: group["memory"][name][()] for name in ["time", *CATEGORIES]}
    assert (numpy.diff(memory["time"]) >= 0).all()
    held = sum(memory[name] for name in CATEGORIES[:-1])
    if "allocator" in group:
        check_columns(group["allocator"], {"reserved": "byte"})
        assert (group["allocator"]["reserved"][()] >= held).all(), f"{group.name}: more is held than reserved"
    peak = int(numpy.argmax(held))  # the first of the largest
    at_peak = {name: int(memory[name][peak]) for name in CATEGORIES}
    at_peak["workspace"] = int(memory["workspace"].max())
    assert at_peak == expected["at_peak"], (group.name, at_peak, expected["at_peak"])
    assert sum(at_peak.values()) == expected["peak_bytes"]
    assert int(memory["time"][peak]) == expected["peak_at_ps"], (group.name, int(memory["time"][peak]), expected)
    activations = memory["activations"] + memory["recomputed"] + memory["communication"]
    assert int(activations.max()) == expected["activation_peak_bytes"]
    return int((ops["start"] + ops["duration"]).max())


def check_file(path, expected):
    with h5py.File(path, "r") as file:
        assert {"schema", "program_version", "command_line", "config", "plan", "device", "clock"} <= set(file.attrs)
        assert file.attrs["schema"] == b"stagecraft.trace/1"
        assert file.attrs["clock"] == b"simulated"
        assert file.attrs["plan"].decode() == expected["plan"]
        names = {name: [text.decode() for text in file["names"][name]] for name in ("op", "phase", "stream")}
        for texts in names.values():
            assert len(set(texts)) == len(texts) and all(texts)
        stages = expected["stages"]
        assert sorted(map(int, file["ranks"])) == list(range(len(stages)))
        for rank, group in file["ranks"].items():
            assert group.attrs["stage"] == int(rank)
        ends = [check_rank(file["ranks"][str(i)], names, stage) for i, stage in enumerate(stages)]
        assert max(ends) == expected["iteration_ps"], (max(ends), expected["iteration_ps"])
        return names, sum(len(file["ranks"][str(i)]["ops/start"]) for i in range(len(stages)))


def main():
    chunk, op, peaks = sys.argv[1:]
    with open(peaks, encoding="utf-8") as file:
        expected = json.load(file)
    names_of_chunk, chunk_rows = check_file(chunk, expected)
    names_of_op, op_rows = check_file(op, expected)
    assert names_of_chunk == names_of_op, "one plan, two vocabularies"
    assert chunk_rows < op_rows
    print(f"{chunk_rows} rows at chunk detail, {op_rows} at op detail: as the simulator says")


main()
