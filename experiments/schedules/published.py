#!/usr/bin/env python3
"""Schedules of Qi et al. 2024 (arXiv:2401.10241) as `stagecraft schedule` plays them, beside the paper's tables.

usage: published.py PROGRAM [DATA]   the built stagecraft; a CSV file like published.csv, which is the default

Prints three tables: bubble rates that the authors calculated (Table 5); measured throughput (Tables 4 and 10) given
the profiled times of the same run (Table 9); and ratios between schedules of one model, microbatch and count.
"""
import csv
import itertools
import json
import pathlib
import statistics
import subprocess
import sys

# Each stage's costs are those of the profile, alike on all stages: the paper gave the first and last a layer fewer.
KINDS = {
    "1F1B": ["1f1b", "--p2p", "overlapped"],
    "ZB-H1": ["zb_h1", "--fuse-adjacent", "false"],  # the paper's; the public quick variant fuses backwards
    "ZB-H2": ["zb_h2"],
    "ZB-1p": ["zb_auto"],
    "ZB-2p": ["zb_auto"],
    "ZB-2p-barrier": ["zb_auto"],
    "ZB-V": ["zbv", "--variant", "auto"],
}


def number(row, key):
    return float(row[key])


def memory_changes(row):
    """Changes of what a stage holds at F, I and W, in bytes per layer and token: the deltas of the public scheduler."""
    hidden, scores = number(row, "hidden"), 5 * number(row, "heads") * number(row, "sequence")
    saved = 34 * hidden + scores
    return [1.0, -(2 * hidden + scores) / saved, -32 * hidden / saved]


def play(program, row, times):
    """What `schedule --json` says of a row, given (F, I, W, transfer) of a stage in ms; None if it has no such kind."""
    kind = KINDS.get(row["schedule"])
    if kind is None:
        return None
    stages, chunks = int(row["pipeline"]), 2 if row["schedule"] == "ZB-V" else 1
    command = [program, "schedule", "--json", "--schedule", *kind, "-p", str(stages), "-n", row["microbatches"]]
    names = ("--forward", "--input-gradient", "--weight-gradient")
    command += [text for name, time in zip(names, times) for text in (name, repr(time / chunks))]
    command += ["--transfer", repr(times[3])]
    if kind[0] in ("zb_auto", "zbv"):
        limit = 2 * stages if row["schedule"].startswith(("ZB-2p", "ZB-V")) else stages
        command += ["--memory", ",".join(f"{change:.12f}" for change in memory_changes(row)), "--memory-limit", str(limit)]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{row['id']}: {' '.join(command)}\n{result.stderr}")
    return json.loads(result.stdout)


def own_times(row):
    return [number(row, f"{name}_ms") for name in ("forward", "input_gradient", "weight_gradient", "transfer")]


def layers_per_stage(row):
    return (int(row["layers"]) + 2) // int(row["pipeline"])


def scaled_times(row, profiles):
    """Times of the model's profile with most microbatches, scaled by the layers of a stage and its sequences."""
    of_model = [other for other in profiles if other["layers"] == row["layers"]]
    profile = max(of_model, key=lambda other: int(other["microbatches"]))
    sequences = number(row, "micro_batch") / number(profile, "micro_batch")
    work = sequences * layers_per_stage(row) / layers_per_stage(profile)
    times = own_times(profile)
    return [time * work for time in times[:3]] + [times[3] * sequences]


def samples_per_second(row, milliseconds):
    return number(row, "global_batch") / int(row["pipeline"]) / milliseconds * 1e3


def bubble_rates(program, rows):
    print("| setting | schedule | paper | here |\n|---|---|---|---|")
    equal = compared = 0
    for row in rows:
        if not (played := play(program, row, own_times(row))):
            continue
        ideal = int(row["microbatches"]) * sum(own_times(row)[:3])
        rate = f"{(played['span'] - ideal) / played['span']:.4f}"
        compared += 1
        equal += rate == f"{number(row, 'bubble_rate'):.4f}"
        print(f"| {row['id']} | {row['schedule']} | {number(row, 'bubble_rate'):.4f} | {rate} |")
    left_out = len(rows) - compared
    print(f"\n{equal} of {compared} equal to 4 digits; {left_out} of schedules that are not played here\n")


def throughput(program, rows):
    print("| run | measured | of the span | error % | of the makespan, with a barrier | error % |\n|---|---|---|---|---|---|")
    errors = []
    for row in rows:
        played, measured = play(program, row, own_times(row)), number(row, "samples_per_gpu_per_second")
        rates = [samples_per_second(row, played[key]) for key in ("span", "makespan")]
        errors.append([100 * (rate / measured - 1) for rate in rates])
        cells = " | ".join(f"{rate:.2f} | {error:+.1f}" for rate, error in zip(rates, errors[-1]))
        print(f"| {row['id']} | {measured:.2f} | {cells} |")
    bias = [statistics.median(column) for column in zip(*errors)]
    print(f"\nbias in the median: span {bias[0]:+.1f} %, with a barrier {bias[1]:+.1f} %; no optimizer step in either\n")


def ratios(program, rows, profiles):
    print("| layers, p, b, n | schedules | measured | here | error % |\n|---|---|---|---|---|")
    keys = ("layers", "pipeline", "micro_batch", "microbatches")
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    errors = []
    for key, members in groups.items():
        members.sort(key=lambda row: -number(row, "samples_per_gpu_per_second"))  # the faster run first
        for one, other in itertools.combinations(members, 2):
            measured = number(one, "samples_per_gpu_per_second") / number(other, "samples_per_gpu_per_second")
            times = []
            for row in (one, other):
                # 1F1B and the barrier synchronise all stages before the optimizer; the others validate afterwards.
                until = "makespan" if row["schedule"] in ("1F1B", "ZB-2p-barrier") else "span"
                times.append(play(program, row, own_times(row) if row["forward_ms"] else scaled_times(row, profiles))[until])
            errors.append(100 * (times[1] / times[0] / measured - 1))
            print(f"| {', '.join(key)} | {one['schedule']} / {other['schedule']} | {measured:.3f} | {times[1] / times[0]:.3f} "
                  f"| {errors[-1]:+.1f} |")
    sizes = [abs(error) for error in errors]
    print(f"\n{len(errors)} ratios: median {statistics.median(sizes):.1f} %, largest {max(sizes):.1f} %, "
          f"bias {statistics.median(errors):+.1f} %")


def main():
    program = sys.argv[1]
    data = sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent / "published.csv"
    with open(data, newline="") as file:
        rows = list(csv.DictReader(file))
    measured = [row for row in rows if row["samples_per_gpu_per_second"]]
    profiles = [row for row in rows if row["forward_ms"]]
    bubble_rates(program, [row for row in rows if row["bubble_rate"]])
    throughput(program, [row for row in measured if row["forward_ms"]])
    ratios(program, measured, profiles)


main()
