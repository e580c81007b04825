#!/usr/bin/env python3
"""Fits the two declared constants of selene-a100 on Table 4, and shows what other choices would have given.

    python3 experiments/choices/run.py PROGRAM [--draws N] [--seed S]

gemm_efficiency and overlap_slowdown are fitted by least squares on the relative errors of the ten times of Table 4,
with everything else as the system file has it. Table 5 is then predicted. With --draws, the constants that are
guesses or choices (CHOICES, GATHERS and TERMS below, with their ranges) are drawn N times, the two are fitted again each
time, and the distribution of both tables' errors is printed: how much of the accuracy is luck. A draw takes two seconds.
Needs nothing beside Python.
"""
import argparse
import concurrent.futures
import csv
import json
import math
import pathlib
import random
import statistics
import subprocess
import tempfile

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
FITTED = ("calibration.gemm_efficiency", "calibration.overlap_slowdown")
CASES = {  # of Table 4: recompute, sequence parallelism
    "baseline": ("none", False), "sequence": ("none", True), "full": ("full", False),
    "selective": ("selective", False), "selective_sequence": ("selective", True),
}
RUNS = [f"{model}-{case}" for model in ("22b", "175b", "530b", "1t") for case in ("full", "present")]


TABLES = CONFIGS / "systems" / "vtrain-a100-all-reduce.csv"
GATHERS = {  # where the tables derive them from all-reduces: seconds, bytes per second of a formula instead
    "as an all-reduce of half the size": None,
    "NCCL's own bandwidth, latency of half an all-reduce": (40e-6, 235e9),
}
CHOICES = {  # constant: (lowest, highest, unit); a guess, or read off a figure
    "calibration.gemm_small_tile": (0.9, 1.0, ""),
    "calibration.gemm_tile_prologue": (0.5, 2.0, " us"),
    "calibration.kernel_launch": (2.0, 8.0, " us"),
    "calibration.stream_efficiency": (0.8, 0.9, ""),
    "calibration.dropout_efficiency": (0.62, 0.82, ""),
    "calibration.p2p_synchronisation": (10.0, 100.0, " us"),
    "network.efficiency": (0.37, 0.88, ""),
    "calibration.iteration_overhead": (0.0, 20.0, " ms"),
}
# Terms that were added because Table 5 was closer with them: bytes of the loss and of the step's kernels are counted for
# one way of writing these kernels; other ways move less or more.
TERMS = {
    "loss": ("widen_logits", "logits_maximum", "exponentials", "cross_entropy", "cross_entropy_backward", "narrow_logits"),
    "step": ("zero_gradients", "scale_gradients", "unscale_gradients", "gradient_norm", "clip_gradients", "adam",
             "narrow_parameters"),
}
TERM_RANGE = (0.7, 1.3)  # of the counted bytes
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--draws", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Model:
    """The program with some constants set."""

    def __init__(self, program, settings=()):
        self.program, self.settings = program, list(settings)

    def run(self, name, settings):
        command = [self.program, "simulate", str(CONFIGS / "paper" / f"{name}.yaml"), "--json"]
        for setting in [*self.settings, *settings]:
            command += ["--set", setting]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    def layer_times(self, fitted):
        """The ten times of Table 4: forward and backward of each case."""
        times = []
        for recompute, sequence in CASES.values():
            layer = self.run("22b-full", [*fitted, f"recompute={recompute}",
                                          f"parallel.sequence={str(sequence).lower()}"])["layer"]
            times += [layer["forward_seconds"], layer["backward_seconds"] + layer["recompute_seconds"]]
        return times

    def fit(self, published):
        """Two constants by Gauss-Newton on relative errors; their values and the errors of Table 4."""
        def settings(values):
            return [f"system.{key}.value={value:.6f}" for key, value in zip(FITTED, values)]

        def residuals(values):
            return [p / q - 1 for p, q in zip(self.layer_times(settings(values)), published)]

        values, step = [0.86, 0.5], 0.01
        for _ in range(8):
            base = residuals(values)
            slopes = [[(moved - at) / step for moved, at in zip(residuals(
                [v + step * (i == k) for i, v in enumerate(values)]), base)] for k in range(2)]
            a, b, d = (sum(x * y for x, y in zip(slopes[i], slopes[j])) for i, j in ((0, 0), (0, 1), (1, 1)))
            g, h = (-sum(x * y for x, y in zip(slope, base)) for slope in slopes)
            determinant = a * d - b * b
            move = [(d * g - b * h) / determinant, (a * h - b * g) / determinant]
            values = [min(0.98, max(0.02, v + m)) for v, m in zip(values, move)]
            if max(map(abs, move)) < 5e-4:
                break
        return values, residuals(values), settings(values)

    def iterations(self, fitted):
        return [self.run(name, fitted)["iteration_seconds"] for name in RUNS]


def percent(errors):
    return f"mean {100 * statistics.mean(map(abs, errors)):.2f} %, largest {100 * max(map(abs, errors)):.2f} %"


def published_of(program, table, keys):
    text = subprocess.run([program, "reproduce", table, "--json"], capture_output=True, text=True, check=True).stdout
    rows = {(row.get("model", ""), row["case"], row["quantity"]): row["published"] for row in json.loads(text)[table]}
    return [next(value for key, value in rows.items() if matches(key)) for matches in keys]


def write_gathers(path, latency, bandwidth):
    """The measured tables of all-reduces, with all-gathers and reduce-scatters of 8 ranks by a formula."""
    with open(TABLES) as file:
        head, *rows = csv.reader(file)
    lines = [[*head, "all_gather 1x8", "reduce_scatter 1x8"]]
    for row in rows:
        microseconds = f"{1e6 * (latency + 7 / 8 * int(row[0]) / bandwidth):.3f}"
        lines.append([*row, microseconds, microseconds])
    with open(path, "w") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def drawn(rng, folder):
    """Settings of one draw; tables that it needs are written to a folder."""
    settings = []
    for key, (low, high, unit) in CHOICES.items():
        settings.append(f"system.{key}={{value: {rng.uniform(low, high):.4f}{unit}, source: drawn}}")
    formula = rng.choice(list(GATHERS.values()))
    if formula:
        tables = folder / "gathers-by-formula.csv"
        write_gathers(tables, *formula)
        settings.append(f"system.node.collectives={{value: {tables}, source: drawn}}")
    factors = {kind: round(factor, 4) for kinds in TERMS.values() for factor in [rng.uniform(*TERM_RANGE)] for kind in kinds}
    settings.append(f"software.kernels.traffic={{value: {json.dumps(factors)}, source: drawn}}")
    return settings


def quantiles(figures):
    """At 5, 25, 50, 75 and 95 % of the figures, by the nearest rank."""
    ordered = sorted(figures)
    return [ordered[max(0, math.ceil(q * len(ordered)) - 1)] for q in QUANTILES]


def print_distribution(trials):
    for name, index in (("Table 4", 1), ("Table 5", 2)):
        for what, figure in (("mean", lambda e: statistics.mean(map(abs, e))), ("largest", lambda e: max(map(abs, e)))):
            picked = quantiles([100 * figure(trial[index]) for trial in trials])
            print(f"  {name}, {what}: " + " / ".join(f"{p:.2f}" for p in picked))


def main():
    options = arguments()
    table4 = published_of(options.program, "table4", [
        (lambda key, case=case, quantity=quantity: key[1:] == (case, quantity))
        for case in CASES for quantity in ("forward_seconds", "backward_seconds")])
    table5 = published_of(options.program, "table5", [
        (lambda key, name=name: f"{key[0]}-{key[1]}".lower() == name and key[2] == "iteration_seconds")
        for name in RUNS])

    def trial(settings):
        model = Model(options.program, settings)
        values, errors4, fitted = model.fit(table4)
        return values, errors4, [p / q - 1 for p, q in zip(model.iterations(fitted), table5)]

    values, errors4, errors5 = trial([])
    for key, value in zip(FITTED, values):
        print(f"{key}: {value:.3f}")
    print("Table 4:", percent(errors4))
    print("Table 5:", percent(errors5), " ".join(f"{name} {100 * e:+.2f}" for name, e in zip(RUNS, errors5)))
    if options.draws == 0:
        return
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        choices = [drawn(rng, pathlib.Path(folder)) for _ in range(options.draws)]
        trials = list(pool.map(trial, choices))
    print(f"{options.draws} draws, errors in % at 5, 25, 50, 75, 95 % of them:")
    print_distribution(trials)
    mean4, mean5 = (statistics.mean(map(abs, errors)) for errors in (errors4, errors5))
    alike = [t for t in trials if statistics.mean(map(abs, t[1])) <= max(mean4, 0.005)]
    print(f"{len(alike)} of them fit Table 4 as well, to {100 * max(mean4, 0.005):.2f} % in the mean:")
    print_distribution(alike)
    below = sum(statistics.mean(map(abs, t[2])) <= mean5 for t in trials)
    print(f"{100 * below / len(trials):.0f} % of all draws have a mean error of Table 5 that is not above the file's")


if __name__ == "__main__":
    main()
