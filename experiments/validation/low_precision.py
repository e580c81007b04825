#!/usr/bin/env python3
"""Prints how far predictions of runs in 8 and 4 bits are off, and those of their speed relative to 16 bits. Runs of mixtures of
experts by Megatron-Bridge come in 16 bits, too.

usage: low_precision.py RESULTS   folder of documents of `stagecraft validate --json`, as run.sh writes them

Rows of dgxc-benchmarking in 8 bits differ from those with bf16 in their names in nothing but their products. A table of
the source, of one model and release, is one measurement repeated on more GPUs, so that it counts once.
"""
import json
import pathlib
import re
import statistics
import sys


def rows(folder, name):
    with open(folder / f"{name}.json") as file:
        return {row["id"]: row for row in json.load(file)["rows"] if row["measured_seconds"] and not row["problem"]}


def print_errors(runs):
    errors = sorted(abs(row["error_percent"]) for row in runs.values())
    print(f"{len(errors)} runs: median {statistics.median(errors):.1f} %, p90 {errors[int(0.9 * len(errors))]:.1f} %")


def print_kinds(runs, apart):
    """By name, without what matches `apart`."""
    kinds = {}
    for name, row in runs.items():
        kinds.setdefault(re.sub(apart, "", name), []).append(row["error_percent"])
    for kind, errors in sorted(kinds.items()):
        print(f"{kind} | {len(errors)} | {statistics.median(errors):+.1f} | {min(errors):+.1f} to {max(errors):+.1f}")


def print_torchao(low_runs, high_runs):
    """Each with the run in 16 bits that differs from it in nothing but its products, if there is one."""
    for name, low in low_runs.items():
        same = {"8B-fsdp-128-compile-fp8": "8B-128-torchtitan"}.get(name, re.sub("tensorwise|rowwise", "bf16", name))
        text = f"{name} | {low['measured_seconds']:.2f} | {low['predicted_seconds']:.2f} | {low['error_percent']:+.1f}"
        if high := high_runs.get(same):
            predicted, measured = (low[key] / high[key] for key in ("predicted_seconds", "measured_seconds"))
            text += f" | {predicted:.3f}, {measured:.3f} | {100 * (predicted / measured - 1):+.1f}"
        if low["measured_reserved_bytes"]:
            predicted, measured = (low[f"{word}_reserved_bytes"] / 2**30 for word in ("predicted", "measured"))
            text += f" | reserved GiB {measured:.1f} | {predicted:.1f} | {100 * (predicted / measured - 1):+.1f}"
        print(text)


def main():
    folder = pathlib.Path(sys.argv[1])
    own = rows(folder, "published-fp8")
    wide = rows(folder, "published") | rows(folder, "published-context") | own
    low_runs = {name: row for name, row in own.items() if "-bf16-" not in name}
    tables = {}
    for name, low in low_runs.items():
        if high := wide.get(name.replace("-fp8-", "-bf16-")) if "-fp8-" in name else None:
            tables.setdefault(re.sub(r"-fp8-\d+gpu", "", name), []).append((low, high))
    print("table | runs | error % | of bf16 | fp8 over bf16: predicted, measured | off by %")
    for name, pairs in sorted(tables.items()):
        median = lambda values: statistics.median(list(values))
        predicted = median(low["predicted_seconds"] / high["predicted_seconds"] for low, high in pairs)
        measured = median(low["measured_seconds"] / high["measured_seconds"] for low, high in pairs)
        print(
            f"{name} | {len(pairs)} | {median(low['error_percent'] for low, _ in pairs):+.1f} | "
            f"{median(high['error_percent'] for _, high in pairs):+.1f} | {predicted:.3f}, {measured:.3f} | "
            f"{100 * (predicted / measured - 1):+.1f}"
        )
    for name, low in low_runs.items():
        if "-fp8-" not in name:
            print(f"{name} | {low['error_percent']:+.1f} %")
    print_errors(low_runs)
    for name, low in low_runs.items():
        if low["measured_allocated_bytes"]:
            error = low["predicted_allocated_bytes"] / low["measured_allocated_bytes"] - 1
            print(f"{name} | peak of allocated bytes {100 * error:+.1f} %")
    print_torchao(rows(folder, "torchtitan-fp8"), rows(folder, "torchtitan"))
    bridge = rows(folder, "bridge")
    print_kinds(bridge, r"^bridge-[\d.]+-|-earlier$")
    print_errors(bridge)
    for system in ("gb200", "gb300"):
        pairs = [
            (row, bridge[name.replace("-mxfp8", "-fp8")])
            for name, row in bridge.items()
            if name.endswith(f"405b-{system}-mxfp8") and name.replace("-mxfp8", "-fp8") in bridge
        ]
        ratio = lambda key: statistics.median(mx[key] / current[key] for mx, current in pairs)
        print(f"mxfp8 over current, 405B, {system}: {ratio('predicted_seconds'):.3f}, {ratio('measured_seconds'):.3f}")
    experts = rows(folder, "bridge-moe")
    print_kinds(experts, r"^bridge-[\d.]+-")
    for precision in ("bf16", "fp8", "mxfp8"):
        print(precision, end=": ")
        print_errors({name: row for name, row in experts.items() if f"-{precision}" in name})


if __name__ == "__main__":
    main()
