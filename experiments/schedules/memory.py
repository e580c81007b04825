#!/usr/bin/env python3
"""Peak memory of the schedules of Qi et al. 2024 (arXiv:2401.10241) as `stagecraft simulate` predicts it, beside the paper's tables.

usage: memory.py PROGRAM [DATA]   the built stagecraft; a CSV file like published_memory.csv, which is the default

Prints three tables: the peaks; differences between schedules of one model, pipeline and microbatch; and what a peak grows by
per microbatch while fewer than the pipeline's stages are in flight. Nothing is fitted. The paper names neither its vocabulary
nor whether its GB are 10^9 bytes: the first is assumed to be GPT-2's, and both readings of the second are printed.
"""
import csv
import itertools
import pathlib
import statistics
import sys

from published_runs import simulate


def predicted(program, row):
    """Bytes that the fullest stage holds at most."""
    return max(stage["peak_bytes"] for stage in simulate(program, row)["stages"])


def print_table(title, differences):
    print(f"| {title} | published | here, GB | here, GiB |\n|---|---|---|---|")
    for name, published, here in differences:
        print(f"| {name} | {published:.1f} | {here / 1e9:.1f} | {here / 2**30:.1f} |")
    for unit, size in (("GB", 1e9), ("GiB", 2**30)):
        errors = [abs(here / size - published) for _, published, here in differences]
        within = sum(error <= 2 for error in errors)
        print(f"\n{unit}: off by {statistics.median(errors):.1f} in the median, {max(errors):.1f} at most; "
              f"{within} of {len(errors)} within 2")
    print()


def main():
    program = sys.argv[1]
    data = sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent / "published_memory.csv"
    with open(data, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["here"] = predicted(program, row)
    print_table("run", [(row["id"], float(row["peak_memory_gb"]), row["here"]) for row in rows])

    def grouped(keys, chosen):
        groups = {}
        for row in chosen:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
        return groups

    def differences(keys, chosen, name):
        return [(name(key, one, other), float(one["peak_memory_gb"]) - float(other["peak_memory_gb"]), one["here"] - other["here"])
                for key, members in grouped(keys, chosen).items() for one, other in itertools.combinations(members, 2)
                if one["schedule"] != other["schedule"] or keys[-1] == "schedule"]

    full = {}
    for row in rows:  # with twice the stages in flight a peak depends on the number of microbatches no more
        if int(row["microbatches"]) >= 2 * int(row["pipeline"]):
            full.setdefault((row["layers"], row["pipeline"], row["micro_batch"], row["schedule"]), row)
    print_table("layers, p, b: schedules", differences(
        ("layers", "pipeline", "micro_batch"), full.values(),
        lambda key, one, other: f"{', '.join(key)}: {one['schedule']} - {other['schedule']}"))
    few = [row for row in rows if int(row["microbatches"]) <= int(row["pipeline"])]
    print_table("layers, p, b, schedule: microbatches", differences(
        ("layers", "pipeline", "micro_batch", "schedule"), few,
        lambda key, one, other: f"{', '.join(key)}: {one['microbatches']} - {other['microbatches']}"))


main()
