#!/usr/bin/env python3
"""Writes configs/residuals.yaml: how far off predictions of measured runs were, by regime.

usage: intervals.py RESULTS   a folder with the documents of `stagecraft validate --json` and cross.json (see run.sh)

A unit is what errs together. Within one system and stack it is a group of runs, predicted with constants that were fitted
without it (cross.py): how a new group of the same machine and software is predicted. Beyond, it is a source
(data set, cluster, software). The score of a run is |ln(measured / predicted) - bias| over its relative error. The
interval's scale is a quantile of the scores, in which every unit has the same weight and one more unit counts as far
off without limit, which makes it valid for a small number of units (Dunn, Wasserman and Ramdas 2022, arXiv:1809.07441,
section 4; residuals of cross-fits, Barber et al. 2021, arXiv:1905.02928). A regime needs four units and 20 runs. Coverage:
each unit is left out, and its runs compared with the interval of the others.
"""
import csv
import json
import math
import pathlib
import statistics
import sys

import fit

LEVEL = 0.8
FEWEST = 4
ROOT = fit.ROOT
ACCELERATORS = {"aws-p5": "H100", "dgx-h100": "H100", "a100-4hdr": "A100", "selene-a100": "A100", "jean-zay-a100": "A100"}
# Data set: system and stack (None: a column says it).
SETS = {
    "nanotron": ("aws-p5", None),
    "vtrain-single-node": ("a100-4hdr", "megatron-deepspeed-2022"),
    "vtrain-multi-node": ("a100-4hdr", "megatron-deepspeed-2022"),
    "narayanan-2021": ("selene-a100", "megatron-2021"),
    "table5": ("selene-a100", "megatron-2022"),
    "published": (None, None),
    "published-context": (None, None),
}
# Runs of one cluster with one stack are one source, in whichever file they are.
SOURCES = {"published-context": "published"}


def runs(results):
    """(system, stack, accelerator, source, group, residual, relative error) of each timed run."""
    cross = json.loads((results / "cross.json").read_text())
    for name, (of_set, stack) in SETS.items():
        folder = fit.HERE if name == "table5" else fit.HERE / "data"
        with open(folder / f"{name}.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        for row, result in zip(rows, json.loads((results / f"{name}.json").read_text())["rows"]):
            if not row["measured.iteration_seconds"] or result["error_percent"] is None:
                continue
            result = cross.get(name, {}).get(row.get("id"), result)
            system, software = of_set or row["system"], stack or row["software"]
            if system not in ACCELERATORS:
                continue
            residual = math.log(result["measured_seconds"] / result["predicted_seconds"])
            yield (system, software, ACCELERATORS[system], f"{SOURCES.get(name, name)} {system} {software}", row["group"], residual,
                   result["relative_error_percent"] / 100)


def quantile(pairs, level):
    """The value below which `level` of the weights lie, of (value, weight)."""
    pairs = sorted(pairs)
    whole, sum_ = sum(weight for _, weight in pairs), 0
    for value, weight in pairs:
        sum_ += weight
        if sum_ >= min(level, 1) * whole - 1e-12:
            return value
    return pairs[-1][0]


def weighted(units):
    return [(residual, 1 / len(unit)) for unit in units for residual, _ in unit]


def limits(units):
    bias = quantile(weighted(units), 0.5)
    scores = [(abs(residual - bias) / error, 1 / len(unit)) for unit in units for residual, error in unit]
    return bias, quantile(scores, LEVEL * (len(units) + 1) / len(units))


def coverage(units):
    """Mean over the units of the part of their runs that an interval from the others covers."""
    parts = []
    for i, unit in enumerate(units):
        bias, scale = limits(units[:i] + units[i + 1:])
        parts.append(statistics.mean(abs(residual - bias) <= scale * error for residual, error in unit))
    weights = [len(unit) for unit in units]
    by_run = sum(part * weight for part, weight in zip(parts, weights)) / sum(weights)
    return statistics.mean(parts), by_run


def difference(groups):
    """Standard deviation of the difference of two residuals of one group, outliers aside."""
    sizes = [(abs(a - b), 1 / len(unit)) for unit in groups for i, (a, _) in enumerate(unit) for b, _ in unit[:i]]
    return 1.4826 * quantile(sizes, 0.5)


def memory_regimes(results):
    """Of runs whose reserved bytes were measured, by software and whether they have several stages: the median of
    ln(measured / predicted), and the standard deviation of a normal distribution with the same 90 % quantile."""
    found = {}
    with open(fit.HERE / "data/nanotron.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, result in zip(rows, json.loads((results / "nanotron.json").read_text())["rows"]):
        measured, predicted = result["measured_reserved_bytes"], result["predicted_reserved_bytes"]
        if measured and predicted:
            key = (row["software"], int(row["parallel.pipeline"]) > 1)
            found.setdefault(key, []).append(math.log(measured / predicted))
    for (software, is_pipelined), residuals in sorted(found.items()):
        if len(residuals) < 20:
            continue
        bias = statistics.median(residuals)
        spread = quantile([(abs(residual - bias), 1) for residual in residuals], 0.9) / 1.6449
        yield {"software": software, "pipelined": str(is_pipelined).lower(), "runs": len(residuals), "bias": bias,
               "spread": spread}


def main():
    found = list(runs(pathlib.Path(sys.argv[1])))

    def parts(key, chosen):
        units = {}
        for run in found:
            if chosen(run):
                units.setdefault(key(run), []).append(run[5:])
        return list(units.values())

    regimes = []

    def add(names, units, groups):
        if len(units) < FEWEST or sum(map(len, units)) < 20:
            return
        bias, scale = limits(units)
        by_unit, by_run = coverage(units)
        regimes.append({**names, "units": len(units), "bias": bias, "scale": scale, "difference": difference(groups),
                        "coverage": by_unit})
        where = ", ".join(names.values()) or "anywhere else in 16 bits on A100 and H100"
        halves = [100 * scale * error for unit in units for _, error in unit]
        runs_ = sum(map(len, units))
        print(f"| {where} | {len(units)} | {runs_} | {100 * math.expm1(bias):+.1f} | {statistics.median(halves):.1f} | {statistics.mean(halves):.1f} "
              f"| {100 * by_unit:.0f} | {100 * by_run:.0f} | {100 * difference(groups):.1f} |")

    print("| regime | units | runs | bias % | half width %, median | mean | units covered % | runs covered % | two plans differ by % |"
          "\n|---|---|---|---|---|---|---|---|---|")
    for system, software in dict.fromkeys(run[:2] for run in found):
        groups = parts(lambda run: run[3:5], lambda run: run[:2] == (system, software))
        add({"system": system, "software": software}, groups, groups)
    for accelerator in dict.fromkeys(run[2] for run in found):
        of_it = lambda run: run[2] == accelerator
        add({"accelerator": accelerator}, parts(lambda run: run[3], of_it), parts(lambda run: run[3:5], of_it))
    add({}, parts(lambda run: run[3], lambda run: True), parts(lambda run: run[3:5], lambda run: True))
    memory = list(memory_regimes(pathlib.Path(sys.argv[1])))
    lines = ["# How far off predictions of measured runs were, by regime; narrow regimes first. Made by",
             "# experiments/validation/run.sh; its README says how. Residuals are ln(measured / predicted).", "regimes:"]
    for regime in [*regimes, "reserved:", *memory]:
        if isinstance(regime, str):
            lines.append(regime)
            continue
        for i, (key, value) in enumerate(regime.items()):
            lines.append(("  - " if i == 0 else "    ") + f"{key}: {value if isinstance(value, (str, int)) else f'{value:.4f}'}")
    (ROOT / "configs/residuals.yaml").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
