"""Reads a snapshot of PyTorch's allocator as its viewer does, and holds it against the trace it was made from.

Used by export_readers.py.
"""

import bisect
import collections
import pickle
import pickletools

# What MemoryViz.js reads.
OPCODES = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BINUNICODE", "BININT", "BININT1", "BININT2",
           "LONG1", "NEWTRUE", "NEWFALSE", "TUPLE2", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "STOP"}


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"{module}.{name} is no plain data")


def check_opcodes(file):
    with open(file, "rb") as data:
        found = collections.Counter(opcode.name for opcode, _, _ in pickletools.genops(data))
    assert set(found) <= OPCODES, set(found) - OPCODES
    return sum(found.values())


def check_device(entries, memory):
    """Plays the entries: nothing overlaps, and after each time the sum is the trace's."""
    live, starts, total = {}, [], 0
    ends = collections.OrderedDict()  # microsecond: bytes at its end
    for entry in entries:
        action, address, size = entry["action"], entry["addr"], entry["size"]
        if action == "segment_alloc":
            segment = (address, address + size)
        elif action == "alloc":
            place = bisect.bisect(starts, address)
            assert segment[0] <= address and address + size <= segment[1], "outside of the segment"
            assert place == 0 or starts[place - 1] + live[starts[place - 1]] <= address, "blocks overlap"
            assert place == len(starts) or address + size <= starts[place], "blocks overlap"
            starts.insert(place, address)
            live[address] = size
            total += size
        elif action == "free_completed":
            assert live.pop(address) == size
            starts.remove(address)
            total -= size
        assert entry["frames"][0]["name"].startswith("stage ")
        if action != "segment_alloc":
            ends[entry["time_us"]] = total
    states = collections.OrderedDict()
    for i, time in enumerate(memory["time"]):
        states[time // 1_000_000] = sum(column[i] for name, column in memory.items() if name != "time")
    held = 0
    for time, size in states.items():
        held = ends.get(time, held)
        assert held == size, (time, held, size)
    return live, max(states.values())


def main(file, trace):
    count = check_opcodes(file)
    with open(file, "rb") as data:
        snapshot = Plain(data).load()
    assert set(snapshot) == {"device_traces", "segments"}
    ranks = sorted(trace["ranks"], key=int)
    assert len(snapshot["device_traces"]) == len(ranks)
    segments = {segment["device"]: segment for segment in snapshot["segments"]}
    for device, rank in enumerate(ranks):
        memory = {name: column[:].tolist() for name, column in trace["ranks"][rank]["memory"].items()}
        live, most = check_device(snapshot["device_traces"][device], memory)
        segment = segments[device]
        end = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == end, "blocks do not tile the segment"
            end += block["size"]
            if block["state"] == "active_allocated":
                assert live.pop(block["address"]) == block["size"]
            else:
                assert block["state"] == "inactive"
        assert end == segment["address"] + segment["total_size"] and not live
        # Addresses are used again: the segment is not much larger than what it ever holds.
        assert most <= segment["total_size"] < 1.5 * most, (most, segment["total_size"])
    print(f"{count} opcodes, {sum(map(len, snapshot['device_traces']))} entries of {len(ranks)} devices")
