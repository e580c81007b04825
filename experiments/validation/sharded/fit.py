#!/usr/bin/env python3
"""Fits the four constants of kernels.time in configs/software/fsdp1.yaml.

usage: fit.py PROGRAM
  PROGRAM  the stagecraft program

The runs are those of one node in ../data/llm-foundry.csv; runs of more nodes are left out. For each accelerator, two factors
are found that make the mean of |log(predicted / measured)| least: of matrix products, and of attention's kernels, forward and
backward alike. Prints them, the error, and that of the runs left out.
"""
import json
import math
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent.parent
CAPABILITIES = {"a100": 0, "h100": 9}


def errors(program, factors):
    """By group: log(predicted / measured) of its runs."""
    product = ", ".join(f"{CAPABILITIES[name]}: {gemm}" for name, (gemm, _) in factors.items())
    attention = ", ".join(f"{CAPABILITIES[name]}: {flash}" for name, (_, flash) in factors.items())
    time = (f"{{gemm: {{{product}}}, flash_attention: {{{attention}}}, "
            f"flash_attention_backward: {{{attention}}}}}")
    result = subprocess.run(
        [program, "validate", HERE / "data/llm-foundry.csv", "--base", HERE / "llm-foundry.yaml", "--json",
         "--set", f"software.kernels.time={time}"], capture_output=True, text=True, check=True)
    groups = {}
    for row in json.loads(result.stdout)["rows"]:
        error = math.log(row["predicted_seconds"] / row["measured_seconds"])
        groups.setdefault(row["group"], []).append(error)
    return groups


def mean(group):
    return statistics.mean(map(abs, group))


def main():
    program = sys.argv[1]
    factors = {"a100": (1.0, 1.5), "h100": (1.0, 1.5)}
    step = 0.2
    while step > 0.005:
        best = errors(program, factors)
        improved = False
        for name, (gemm, flash) in list(factors.items()):
            for other in ((gemm + step, flash), (gemm - step, flash), (gemm, flash + step), (gemm, flash - step)):
                tried = errors(program, factors | {name: (round(other[0], 3), round(other[1], 3))})
                if mean(tried[f"{name} one node"]) < mean(best[f"{name} one node"]) - 1e-6:
                    factors[name], best, improved = (round(other[0], 3), round(other[1], 3)), tried, True
        if not improved:
            step /= 2
    print("gemm, attention:", factors)
    for group, values in sorted(errors(program, factors).items()):
        print(f"{group}: {len(values)} runs, mean {100 * mean(values):.1f} %, "
              f"median {100 * statistics.median(map(abs, values)):.1f} %")


if __name__ == "__main__":
    main()
