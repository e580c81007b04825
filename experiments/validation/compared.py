#!/usr/bin/env python3
"""Writes configs/compared.yaml: how far off predictions of measured runs were by system and regime, and between which settings
these runs lie.

usage: compared.py RESULTS   a folder with the documents of `stagecraft validate --json --by KEYS` (see run.sh), or
       compared.py --keys    prints KEYS
"""
import collections
import csv
import json
import math
import pathlib
import statistics
import sys

import intervals

SYSTEM, SOFTWARE, ACCELERATOR = "system", "software", "system.accelerator.name"
PRECISION, SEQUENCE = "model.precision", "model.sequence"
CONTEXT = "parallel.context"
RANKS = ("parallel.tensor", CONTEXT, "parallel.pipeline", "parallel.data")
EXPERTS = "model.experts"  # a column of its own where models have them
KEYS = (SYSTEM, SOFTWARE, ACCELERATOR, PRECISION, SEQUENCE, *RANKS)
SETS = {**intervals.SETS, "published-moe": (None, None)}


def regimes(results):
    """The settings and errors in percent of all timed runs that have a prediction, by regime."""
    found = collections.defaultdict(list)
    for name in SETS:
        document = results / f"{name}.json"
        folder = intervals.fit.HERE if name == "table5" else intervals.fit.HERE / "data"
        if not document.exists():
            sys.exit(f"{document} is missing: run.sh makes it")
        with open(folder / f"{name}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        for row, result in zip(rows, json.loads(document.read_text())["rows"]):
            if result["error_percent"] is None:
                continue
            by = result["by"]
            regime = (by[SYSTEM], by[SOFTWARE], by[ACCELERATOR], bool(row.get(EXPERTS)), int(by[CONTEXT]) > 1, by[PRECISION])
            found[regime].append((int(by[SEQUENCE]), int(by[CONTEXT]), math.prod(int(by[key]) for key in RANKS),
                                  result["error_percent"]))
    return found


def main():
    if sys.argv[1] == "--keys":
        print(",".join(KEYS))
        return
    lines = ["# Measured runs that predictions were compared with, by system and regime: the median error of the iteration's time, and",
             "# between which settings the runs lie. Made by experiments/validation/run.sh from all data sets of that folder.",
             "regimes:"]
    for (system, software, accelerator, experts, context, precision), runs in sorted(regimes(pathlib.Path(sys.argv[1])).items()):
        sequences, contexts, gpus, errors = zip(*runs)
        lines += [f"  - system: {system}", f"    software: {software}", f"    accelerator: {accelerator}", f"    experts: {str(experts).lower()}",
                  f"    context_parallel: {str(context).lower()}", f"    precision: {precision}", f"    runs: {len(runs)}",
                  f"    median_percent: {statistics.median(map(abs, errors)):.1f}",
                  f"    median_signed_percent: {statistics.median(errors):.1f}", f"    least_sequence: {min(sequences)}",
                  f"    most_sequence: {max(sequences)}", f"    most_context: {max(contexts)}", f"    most_gpus: {max(gpus)}"]
    (intervals.ROOT / "configs/compared.yaml").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
