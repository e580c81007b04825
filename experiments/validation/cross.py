#!/usr/bin/env python3
"""Predicts the groups that fit.py fits with constants that were fitted without them.

usage: cross.py fit STAGECRAFT              writes cross_fits.csv (fit.sh)
       cross.py predict STAGECRAFT RESULTS  writes RESULTS/cross.json (run.sh), which intervals.py reads

The shipped constants are fitted on the groups of three folds. The fits are repeated with each of the three left out, from
the same priors; the groups of that fold are predicted with what comes out. Groups that the shipped fit held out need
nothing: no group is then predicted with constants that saw it.
"""
import csv
import json
import pathlib
import sys

import fit

FITS = fit.HERE / "cross_fits.csv"
KERNEL = "software.host.kernel"
WITH_KERNEL = ("software.host.gemm", "software.host.collective")  # fitted with it
# Stacks whose constants another one starts from: nanotron-checked.yaml has nanotron as its base.
BASES = {"nanotron-checked": "nanotron"}


def setting(key, value):
    return f"{key}={{value: {value}, source: cross_fits.csv, fitted: without a fold}}"


def settings(stack, found):
    """Overrides for a stack, of constants by (stack, key): its own, its base's, and those of their system."""
    for (owner, key), value in found.items():
        if key.startswith("system.") or owner in (stack, BASES.get(stack)):
            yield setting(key, value)


def rows_of(data, stack, chosen):
    """The timed rows of a stack in the groups that are chosen, and a file of them."""
    with open(fit.HERE / "data" / f"{data}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    rows = [row for row in rows
            if row["measured.iteration_seconds"] and row.get("software", stack) == stack and chosen(row["group"])]
    path = fit.OUT / f"{stack}-cross.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return rows, fit.drop_software(path)


def words(path, data, stack, texts):
    overrides = [word for text in texts for word in ("--set", text)]
    return path, "--base", fit.HERE / f"{data}.yaml", "--set", f"software={stack}", *overrides


def fit_all(program):
    lines = []
    for left_out in fit.FITTED_FOLDS:
        # By data set, so that the constants of one machine are not set on another one.
        by_data = {}
        for _, data, stack, _, constants in fit.STEPS:
            found = by_data.setdefault(data, {("nanotron-checked", key): fit.CHECKED[key][0] for key in
                                              ("system.calibration.gemm_efficiency",) if data == "nanotron"})
            _, path = rows_of(data, stack, lambda group: fit.is_fitted(group) and fit.fold(group) != left_out)
            followers = {KERNEL: WITH_KERNEL} if KERNEL in constants else {}
            fitted = {*constants, *(key for keys in followers.values() for key in keys)}
            texts = [*settings(stack, {key: value for key, value in found.items() if key[1] not in fitted}),
                     *fit.prior_settings(constants, followers)]
            result = fit.run(program, "fit", *words(path, data, stack, texts), "--constants", ",".join(constants))
            for constant in result["constants"]:
                for key in (constant["key"], *followers.get(constant["key"], ())):
                    found[stack, key] = fit.quantity(constant)
        lines += [(left_out, data, *key, value) for data, found in by_data.items() for key, value in found.items()]
    with open(FITS, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("fold left out", "data", "stack", "constant", "value"))
        writer.writerows(lines)


def predict_all(program, results):
    with open(FITS, newline="") as file:
        fits = list(csv.DictReader(file))
    predictions = {}
    for left_out in fit.FITTED_FOLDS:
        for data, stack in dict.fromkeys((row["data"], row["stack"]) for row in fits):
            found = {(row["stack"], row["constant"]): row["value"] for row in fits
                     if row["data"] == data and int(row["fold left out"]) == left_out}
            rows, path = rows_of(data, stack, lambda group: fit.is_fitted(group) and fit.fold(group) == left_out)
            predicted = fit.run(program, "validate", *words(path, data, stack, settings(stack, found)))["rows"]
            for row, result in zip(rows, predicted):
                predictions.setdefault(data, {})[row["id"]] = result
    (results / "cross.json").write_text(json.dumps(predictions))


def main():
    fit.OUT.mkdir(parents=True, exist_ok=True)
    if sys.argv[1] == "fit":
        fit_all(sys.argv[2])
    else:
        predict_all(sys.argv[2], pathlib.Path(sys.argv[3]))


if __name__ == "__main__":
    main()
