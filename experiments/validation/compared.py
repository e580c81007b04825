#!/usr/bin/env python3
"""Writes configs/compared.yaml: on which systems predictions were compared with measured runs.

usage: compared.py RESULTS   a folder with the documents of `stagecraft validate --json` (see run.sh)
"""
import collections
import csv
import json
import pathlib
import statistics
import sys

import intervals

SETS = {**intervals.SETS, "published-context": (None, None), "published-moe": (None, None)}


def errors(results):
    """The errors in percent of all timed runs that have a prediction, by system."""
    found = collections.defaultdict(list)
    for name, (of_set, _) in SETS.items():
        folder = intervals.fit.HERE if name == "table5" else intervals.fit.HERE / "data"
        document = results / f"{name}.json"
        if not document.exists():
            sys.exit(f"{document} is missing: run.sh makes it")
        with open(folder / f"{name}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        for row, result in zip(rows, json.loads(document.read_text())["rows"]):
            if result["error_percent"] is not None:
                found[of_set or row["system"]].append(abs(result["error_percent"]))
    return found


def main():
    lines = ["# Systems on which predictions were compared with measured runs, and the median error of the iteration's time.",
             "# Made by experiments/validation/run.sh from all data sets of that folder.", "systems:"]
    for system, percent in sorted(errors(pathlib.Path(sys.argv[1])).items()):
        lines.append(f"  - {{system: {system}, runs: {len(percent)}, median_percent: {statistics.median(percent):.1f}}}")
    (intervals.ROOT / "configs/compared.yaml").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
