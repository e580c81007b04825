#!/usr/bin/env python3
"""Prints how far off the bytes of runs with sharded units are.

usage: errors.py RESULT.json...   documents of `stagecraft validate --json`

Resident and allocated bytes, and activations: what the peak has beyond resident bytes and the roots of second moments, where
that is more than a tenth of the peak. The roots take as much as one moment, a fourth of resident bytes, or a third where
gradients are freed.
"""
import json
import statistics
import sys


def percent(predicted, measured):
    return 100 * (predicted / measured - 1)


def line(title, errors):
    if not errors:
        return
    sizes = list(map(abs, errors))
    print(f"{title}: {len(errors)} runs, median {statistics.median(sizes):.2f} %, largest {max(sizes):.2f} %")


def main():
    for path in sys.argv[1:]:
        with open(path) as file:
            rows = [row for row in json.load(file)["rows"] if row["measured_allocated_bytes"] and not row["problem"]]
        resident = [(row["predicted_resident_bytes"], row["measured_resident_bytes"]) for row in rows]
        line("resident", [percent(*pair) for pair in resident if pair[1]])
        line("allocated", [percent(row["predicted_allocated_bytes"], row["measured_allocated_bytes"]) for row in rows])
        activations = []
        for row in rows:
            kept, peak = row["measured_resident_bytes"], row["measured_allocated_bytes"]
            if not kept:
                continue
            roots = kept / (3 if "-g1-" in row["id"] else 4)
            if peak - kept - roots > 0.1 * peak:
                activations.append(percent(row["predicted_allocated_bytes"] - row["predicted_resident_bytes"] - roots,
                                           peak - kept - roots))
        line("activations", activations)


if __name__ == "__main__":
    main()
