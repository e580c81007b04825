#!/usr/bin/env python3
"""Peak memory of the schedules of Qi et al. 2024 (arXiv:2401.10241) as `stagecraft simulate` predicts it, beside the paper's tables.

usage: memory.py PROGRAM [DATA]   the built stagecraft; a CSV file like published_memory.csv, which is the default

Prints three tables: the peaks; differences between schedules of one model, pipeline and microbatch; and what a peak grows by
per microbatch while fewer than the pipeline's stages are in flight. Nothing is fitted. The paper names neither its vocabulary
nor whether its GB are 10^9 bytes: the first is assumed to be GPT-2's, and both readings of the second are printed.
"""
import csv
import itertools
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

VOCABULARY = 50257  # of GPT-2, padded to 50304 by the program
SCHEDULES = {
    "1F1B": "{{kind: 1f1b, p2p: overlapped}}",
    "ZB-1p": "{{kind: zb_auto, memory_limit: {p}}}",
    "ZB-2p": "{{kind: zb_auto, memory_limit: {twice}}}",
    "ZB-V": "{{kind: zbv, variant: auto}}",
}
RUN = """
model: {{layers: {layers}, hidden: {hidden}, heads: {heads}, sequence: {sequence}, vocabulary: {vocabulary}, tied_embeddings: false, causal_mask: none}}
system: selene-a100
parallel: {{pipeline: {pipeline}}}
batch: {{global: {batch}, micro: {micro_batch}}}
schedule: {settings}
recompute: none
layout: {{first: {ends}, last: {ends}}}
"""


def predicted(program, row):
    """Bytes that the fullest stage holds at most."""
    stages, micro = int(row["pipeline"]), int(row["micro_batch"])
    per_stage = (int(row["layers"]) + 2) // stages  # the first and the last stage have a layer fewer
    schedule = SCHEDULES[row["schedule"]].format(p=stages, twice=2 * stages)
    layout = per_stage - 1
    text = RUN.format(**row, batch=micro * int(row["microbatches"]), vocabulary=VOCABULARY, settings=schedule, ends=layout)
    if row["schedule"] == "ZB-V":  # one rank has both ends, so it has two layers fewer than the others
        halves = per_stage // 2
        text = text[:text.index("layout:")] + f"layout: {[halves - 1] + [halves] * (2 * stages - 2) + [halves - 1]}\n"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        result = subprocess.run([program, "simulate", "--json", file.name], capture_output=True, text=True)
    if not result.stdout:
        sys.exit(f"{row['id']}: {text}\n{result.stderr}")
    return max(stage["peak_bytes"] for stage in json.loads(result.stdout)["stages"])


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
