#!/usr/bin/env python3
"""How far off bytes and times of Megatron-LM's functional tests are, by machine, dense and with experts.

usage: errors.py RESULTS.json [--rows]   what `stagecraft validate ../data/megatron-ci.csv --base ../megatron-ci.yaml --json`
printed; --rows lists each run's errors in percent, and the missing MiB

Core rows are those of a current environment alone: no release run, no reinforcement learning, no modelopt, no
Megatron-FSDP, no 8 bits. Times leave out GB200 on 4 GPUs.
"""
import csv
import hashlib
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
CORE = ("dev_dgx_a100", "dev_dgx_h100", "dev_dgx_gb200")
BYTES = ("allocated", "first_allocated", "resident")


def is_timed(row):
    """Whether it is a core row whose time counts."""
    return row["group"] in CORE and not (row["system"] == "gb200-nvl72" and "1node" in row["id"])


def is_fitted(row):
    """Whether the times of the host were fitted to the row: its test's name has an even hash, and h is 512."""
    test = row["id"].rsplit("-dev_", 1)[0]
    return int(hashlib.sha256(test.encode()).hexdigest(), 16) % 2 == 0 and row["model.hidden"] == "512"


def spearman(pairs):
    """Rank correlation; equal values share the mean of their ranks."""
    def ranks(values):
        return [sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2 for value in values]
    return statistics.correlation(*(ranks(values) for values in zip(*pairs)))


def print_times(runs):
    print("\n| times of core rows | number | median % | p90 % | bias % | rank correlation |")
    print("|---" * 6 + "|")
    timed = [(row, result) for row, result in runs if is_timed(row) and result["error_percent"] is not None]
    chosen = [("all", timed), ("fitted", [run for run in timed if is_fitted(run[0])]),
              ("held out", [run for run in timed if not is_fitted(run[0])]),
              *((f"{system}{of}", [run for run in timed if run[0]["system"] == system and (not of or not is_fitted(run[0]))])
                for system in ("hgx-a100-80", "dgx-h100", "gb200-nvl72") for of in ("", ", held out"))]
    for name, some in chosen:
        errors = [result["error_percent"] for _, result in some]
        sizes = [abs(value) for value in errors]
        order = spearman([(result["predicted_seconds"], result["measured_seconds"]) for _, result in some])
        print(f"| {name} | {len(some)} | {statistics.median(sizes):.1f} | {quantile(sizes, 0.9):.1f} | "
              f"{statistics.median(errors):+.1f} | {order:.2f} |")


def error(result, what):
    predicted, measured = result[f"predicted_{what}_bytes"], result[f"measured_{what}_bytes"]
    return None if predicted is None or measured is None else 100 * (predicted / measured - 1)


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def cells(errors, *limits):
    sizes = [abs(value) for value in errors]
    if not sizes:
        return ["", "", *("" for _ in limits), ""]
    within = [f"{100 * sum(size <= limit for size in sizes) / len(sizes):.0f}" for limit in limits]
    return [f"{statistics.median(sizes):.1f}", f"{quantile(sizes, 0.9):.1f}", *within, f"{max(errors, key=abs):+.1f}"]


def main():
    document = json.loads(pathlib.Path(sys.argv[1]).read_text())
    with open(HERE.parent / "data/megatron-ci.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    runs = [(row, result) for row, result in zip(rows, document["rows"], strict=True) if result["problem"] is None]
    if "--rows" in sys.argv:
        for row, result in runs:
            missing = [(result[f"measured_{what}_bytes"] or 0) - (result[f"predicted_{what}_bytes"] or 0) for what in BYTES]
            print(row["id"], row["group"].replace(" ", "+"), *(f"{error(result, what) or 0:+.2f}" for what in BYTES),
                  *(f"{value / 2**20:+.1f}" for value in missing), f"{result['error_percent'] or 0:+.1f}")
        return
    print("| rows | number | peak: median % | p90 % | within 1 % | 3 % | 4 % | worst % | first: median | p90 | worst "
          "| resident: median | p90 | within 3 % | worst | time: median | p90 | worst |")
    print("|---" * 18 + "|")
    kinds = (("dense", lambda row: not row["model.experts"]), ("experts", lambda row: row["model.experts"]))
    groups = [("core", CORE), *((group, (group,)) for group in sorted({row["group"] for row in rows}))]
    for name, members in groups:
        for kind, holds in kinds:
            chosen = [(row, result) for row, result in runs if row["group"] in members and holds(row)]
            if not chosen:
                continue
            errors = {what: [value for _, result in chosen if (value := error(result, what)) is not None] for what in BYTES}
            times = [result["error_percent"] for row, result in chosen
                     if result["error_percent"] is not None and (is_timed(row) or row["group"] not in CORE)]
            print("|", " | ".join([f"{name}, {kind}", str(len(chosen)), *cells(errors["allocated"], 1, 3, 4),
                                   *cells(errors["first_allocated"]), *cells(errors["resident"], 3), *cells(times)]), "|")
    print_times(runs)


if __name__ == "__main__":
    main()
