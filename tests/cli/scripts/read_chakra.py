"""Decodes execution traces of Chakra by their schema (et_def.proto), and looks for what would make a simulator hang.

Used by export_readers.py.
"""

import collections
import json

COMP, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
VALUE_TYPES = {7: "int32", 9: "int64", 13: "uint64", 27: "bool", 29: "string"}
# Of the feeder of ASTRA-sim: any other type reads as 0.
ATTRIBUTE_TYPES = {"is_cpu_op": "bool", "num_ops": "int64", "tensor_size": "uint64", "comm_type": "int64", "comm_size": "int64",
                   "comm_src": "int32", "comm_dst": "int32", "comm_tag": "int32", "pg_name": "string"}


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            assert key & 7 == 2, "an unexpected wire type"
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size, "cut off"
        yield key >> 3, value


def numbers(packed):
    at, values = 0, []
    while at < len(packed):
        value, at = varint(packed, at)
        values.append(value)
    return values


def attribute(data):
    (_, name), (field, value) = fields(data)
    name, kind = name.decode(), VALUE_TYPES[field]
    assert ATTRIBUTE_TYPES.get(name, kind) == kind, (name, kind)
    return name, value.decode() if kind == "string" else value


def read(file):
    data = file.read_bytes()
    at, messages = 0, []
    while at < len(data):
        size, at = varint(data, at)
        messages.append(data[at : at + size])
        at += size
    assert dict(fields(messages[0]))[1] == b"0.0.4"
    nodes = []
    for message in messages[1:]:
        node = {"deps": [], "attr": {}}
        for field, value in fields(message):
            if field == 10:
                name, content = attribute(value)
                node["attr"][name] = content
            elif field == 5:
                node["deps"] = numbers(value)
            else:
                node[{1: "id", 2: "name", 3: "type", 6: "start", 7: "duration"}[field]] = value
        nodes.append(node)
    return nodes


def main(prefix, ranks, gathered=None, shifted=None):
    """`ranks`: of the job; `gathered`: the bytes that a rank puts into the all-gather before queries, keys and values;
    `shifted`: the bytes of keys and values that a rank sends around the ring of attention, and how often."""
    groups = {int(number): members for number, members in json.loads(open(f"{prefix}.groups.json").read()).items()}
    sends, receives, calls = {}, {}, collections.defaultdict(lambda: collections.defaultdict(list))
    kinds, inputs, shifts = collections.Counter(), set(), collections.defaultdict(collections.Counter)
    for rank in range(ranks):
        seen = set()
        for node in read(prefix.parent / f"{prefix.name}.{rank}.et"):
            attr = node["attr"]
            kinds[node["type"]] += 1
            assert set(node["deps"]) <= seen and node["id"] not in seen, "a dependency comes later"
            seen.add(node["id"])
            assert attr["is_cpu_op"] == 0
            assert abs(attr["duration_ns"] - 1000 * node["duration"]) <= 500
            if node["type"] in (SEND, RECEIVE):
                assert attr["comm_src" if node["type"] == SEND else "comm_dst"] == rank
                ends = sends if node["type"] == SEND else receives
                key = attr["comm_src"], attr["comm_dst"], attr["comm_tag"]
                assert key not in ends, "two messages have one tag"
                ends[key] = attr["comm_size"]
                if node["type"] == SEND and node["name"] == b"core_attention.send_kv":
                    shifts[rank][attr["comm_size"]] += 1
            elif node["type"] == COLLECTIVE:
                group = int(attr["pg_name"])
                assert rank in groups[group]
                assert group > 0  # ASTRA-sim, CommunicatorGroup::set_id
                if node["name"] == b"attention.qkv.all_gather":
                    inputs.add(attr["comm_size"])
                calls[group][rank].append((attr["comm_type"], attr["comm_size"]))
            else:
                assert node["type"] == COMP and attr["num_ops"] >= 0
    assert sends == receives, "a message has one end only"
    assert inputs == ({gathered} if gathered else set())
    assert dict(shifts) == ({rank: {shifted[0]: shifted[1]} for rank in range(ranks)} if shifted else {})
    for group, members in groups.items():
        assert len({tuple(calls[group][rank]) for rank in members}) == 1, "members of a group call differently"
    print(f"nodes by type {dict(sorted(kinds.items()))}, {len(sends)} messages, {len(groups)} groups")
    assert not list(prefix.parent.glob("*.partial"))
