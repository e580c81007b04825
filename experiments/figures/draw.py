#!/usr/bin/env python3
"""Draws figures 1, 7, 8 and 9 of Korthikanti et al. 2022 from the program's data.

    python3 experiments/figures/draw.py REPRODUCTION_FOLDER [OUTPUT_FOLDER]

Reads figure*.csv as `stagecraft reproduce all --output` leaves them; writes figure*.png.
"""
import csv
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

GIB = 2**30
MODELS = ["22B", "175B", "530B", "1T"]


def rows(folder, name):
    with open(folder / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def value(table, model, case, quantity=None):
    for row in table:
        if row["model"] == model and row["case"] == case and quantity in (None, row["quantity"]):
            return float(row["predicted"])
    raise KeyError(f"{model} {case} {quantity}")


def figure1(folder, axes):
    """Memory per GPU: states, and activations of the baseline and of the present work on top."""
    table = rows(folder, "figure1")
    states = [value(table, m, "parameters_and_optimizer") / GIB for m in MODELS]
    for offset, case, label in ((-0.2, "activations_baseline", "activations, tensor parallel"),
                                (0.2, "activations_present", "activations, present work")):
        at = [i + offset for i in range(len(MODELS))]
        axes.bar(at, states, 0.36, color="#8da0cb", label="parameters and optimizer" if offset < 0 else None)
        axes.bar(at, [value(table, m, case) / GIB for m in MODELS], 0.36, bottom=states, label=label)
    axes.axhline(80, color="red", linestyle="--", label="A100 80GB")
    axes.set(xticks=range(len(MODELS)), xticklabels=MODELS, ylabel="GiB", title="Figure 1: memory per GPU")


def figure7(folder, axes):
    """Activations in percent of the tensor-parallel baseline."""
    table = rows(folder, "figure7")
    cases = ["sequence", "selective", "selective_sequence", "full"]
    for i, case in enumerate(cases):
        at = [x + (i - 1.5) * 0.2 for x in range(len(MODELS))]
        axes.bar(at, [value(table, m, case) for m in MODELS], 0.18, label=case.replace("_", " + "))
    axes.set(xticks=range(len(MODELS)), xticklabels=MODELS, ylabel="% of the baseline",
             title="Figure 7: activations that are kept", ylim=(0, 90))


def figure8(folder, axes):
    """The time of a layer (forward, backward, recompute) for baseline, full recompute and present work."""
    table = rows(folder, "figure8")
    at, labels = 0.0, []
    for model in MODELS:
        for case in ("baseline", "full", "present"):
            bottom = 0.0
            for quantity, colour in (("forward_seconds", "#66c2a5"), ("backward_seconds", "#8da0cb"),
                                     ("recompute_seconds", "#fc8d62")):
                height = 1e3 * value(table, model, case, quantity)
                axes.bar(at, height, 0.8, bottom=bottom, color=colour,
                         label=quantity.split("_")[0] if at == 0 else None)
                bottom += height
            labels.append((at, f"{model} {case}"))
            at += 1
        at += 0.6
    axes.set_xticks([x for x, _ in labels], [text for _, text in labels], rotation=60, ha="right")
    axes.set(ylabel="ms", title="Figure 8: time of a layer")


def figure9(folder, axes):
    """Activation memory by pipeline rank, with and without output deallocation, and the paper's points."""
    table = rows(folder, "figure9")
    for case in ("deallocated", "kept"):
        mine = [row for row in table if row["case"] == case]
        axes.plot([int(r["stage"]) for r in mine], [float(r["predicted"]) / GIB for r in mine],
                  label=f"outputs {case}")
        read = [r for r in mine if r["published"]]
        axes.plot([int(r["stage"]) for r in read], [float(r["published"]) / GIB for r in read],
                  "k+", label="read off the paper" if case == "kept" else None)
    axes.set(xlabel="pipeline rank", ylabel="GiB", title="Figure 9: activation memory, 530B", ylim=0)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    output = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else sys.argv[1])
    output.mkdir(parents=True, exist_ok=True)
    for draw in (figure1, figure7, figure8, figure9):
        figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
        draw(folder, axes)
        axes.legend(loc="upper right" if draw is figure9 else "upper left", ncols=2)
        figure.savefig(output / f"{draw.__name__}.png", dpi=120)
        plt.close(figure)
        print(output / f"{draw.__name__}.png")


if __name__ == "__main__":
    main()
