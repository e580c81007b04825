#!/usr/bin/env python3
"""Throughput of published schedules as `stagecraft simulate` predicts it from model, system and schedule alone.

usage: first_principles.py PROGRAM [DATA ...]   the built stagecraft; CSV files like published.csv and
published_others.csv, which are the default

No profiled time is used. Each source has one factor for its machine and kernels, the median over its 1F1B rows without
recompute of measured over predicted throughput; the table says how far the other rows are off behind it.
"""
import concurrent.futures
import csv
import pathlib
import statistics
import sys

from published_runs import is_known, simulate

HERE = pathlib.Path(__file__).resolve().parent
GOAL = 8.0  # per cent


def measured(row):
    """In samples per second and GPU, or as a share of the peak; only ratios within a source are used."""
    return float(row.get("samples_per_gpu_per_second") or row["model_flops_percent"])


def predicted(program, row):
    found = simulate(program, row, "post_validated" if row["source"] == "Qi 2401.10241" else "barrier")
    gpus = int(row["pipeline"]) * int(row.get("tensor") or 1) * int(row.get("data") or 1)
    samples = int(row["micro_batch"]) * int(row["microbatches"]) * int(row.get("data") or 1)
    rate = samples / found["iteration_seconds"] / gpus
    return rate if row.get("samples_per_gpu_per_second") else 100 * found["mfu"]


def read(paths):
    rows = []
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                row.setdefault("source", "Qi 2401.10241")
                if row.get("samples_per_gpu_per_second") or row.get("model_flops_percent"):
                    rows.append(row)
    return rows


def main():
    program = sys.argv[1]
    rows = read(sys.argv[2:] or [HERE / "published.csv", HERE / "published_others.csv"])
    known = [row for row in rows if is_known(row)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for row, rate in zip(known, pool.map(lambda row: predicted(program, row), known)):
            row["predicted"] = rate
    print("| source | rows | factor (1F1B rows) | error of 1F1B rows: median, most | of the others: median, most | bias of the others | within 8 % |")
    print("|---|---|---|---|---|---|---|")
    details = []
    for source in dict.fromkeys(row["source"] for row in known):
        own = [row for row in known if row["source"] == source]
        fitted = [row for row in own if row["schedule"] == "1F1B"]
        factor = statistics.median(measured(row) / row["predicted"] for row in fitted)
        for row in own:
            row["error"] = 100 * (factor * row["predicted"] / measured(row) - 1)
        others = [row["error"] for row in own if row["schedule"] != "1F1B"]
        size = lambda errors: f"{statistics.median(map(abs, errors)):.1f}, {max(map(abs, errors)):.1f}"
        within = sum(abs(error) <= GOAL for error in others)
        print(f"| {source} | {len(own)} | {factor:.3f} ({len(fitted)}) | {size([row['error'] for row in fitted])} | {size(others)} "
              f"| {statistics.median(others):+.1f} | {within} of {len(others)} |")
        details += own
    print("\n| run | schedule | p | b | n | measured | predicted | error % |\n|---|---|---|---|---|---|---|---|")
    for row in details:
        print(f"| {row['id']} | {row['schedule']} | {row['pipeline']} | {row['micro_batch']} | {row['microbatches']} | {measured(row):g} "
              f"| {row['predicted']:.3g} | {row['error']:+.1f} |")
    missing = [row["id"] for row in rows if not is_known(row)]
    print("\nNot predicted, as the source does not print the number of chunks: " + ", ".join(missing) + ".")


main()
