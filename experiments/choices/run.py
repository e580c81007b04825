#!/usr/bin/env python3
"""Fits the two declared constants of selene-a100 on Table 4, and shows what other choices would have given.

    python3 experiments/choices/run.py PROGRAM [--draws N] [--seed S]

gemm_efficiency and overlap_slowdown are fitted by least squares on the relative errors of the ten times of Table 4,
with everything else as the system file has it. Table 5 is then predicted. With --draws, the constants that are
guesses or choices (CHOICES below, with their ranges) are drawn N times, the two are fitted again each time, and the
distribution of both tables' errors is printed: how much of the accuracy is luck. Needs nothing beside Python.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import statistics
import subprocess

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
FITTED = ("calibration.gemm_efficiency", "calibration.overlap_slowdown")
CASES = {  # of Table 4: recompute, sequence parallelism
    "baseline": ("none", False), "sequence": ("none", True), "full": ("full", False),
    "selective": ("selective", False), "selective_sequence": ("selective", True),
}
RUNS = [f"{model}-{case}" for model in ("22b", "175b", "530b", "1t") for case in ("full", "present")]
def gathers(latency, bandwidth):
    """The times of all-gathers and reduce-scatters by a formula, where the tables derive them from all-reduces."""
    cost = f"{{value: {{latency: {latency}, bandwidth: {bandwidth}}}, source: drawn}}"
    return [f"system.node.{kind}={cost}" for kind in ("all_gather", "reduce_scatter")]


GATHERS = {
    "as an all-reduce of half the size": [],
    "NCCL's own bandwidth, latency of half an all-reduce": gathers("40 us", "235 GB/s"),
}
CHOICES = {  # constant: (lowest, highest, unit); a guess, or read off a figure
    "calibration.gemm_small_tile": (0.9, 1.0, ""),
    "calibration.gemm_tile_prologue": (0.5, 2.0, " us"),
    "calibration.kernel_launch": (2.0, 8.0, " us"),
    "calibration.stream_efficiency": (0.8, 0.9, ""),
    "calibration.dropout_efficiency": (0.62, 0.82, ""),
    "network.efficiency": (0.37, 0.88, ""),
    "calibration.iteration_overhead": (0.0, 20.0, " ms"),
}


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


def drawn(rng):
    settings = []
    for key, (low, high, unit) in CHOICES.items():
        settings.append(f"system.{key}={{value: {rng.uniform(low, high):.4f}{unit}, source: drawn}}")
    settings += rng.choice(list(GATHERS.values()))
    return settings


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
    choices = [drawn(rng) for _ in range(options.draws)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        trials = list(pool.map(trial, choices))
    print(f"{options.draws} draws, mean error of each, at 5, 25, 50, 75, 95 % of them:")
    for name, index in (("Table 4", 1), ("Table 5", 2)):
        for what, figure in (("mean", lambda e: statistics.mean(map(abs, e))), ("largest", lambda e: max(map(abs, e)))):
            ordered = sorted(100 * figure(t[index]) for t in trials)
            picked = [ordered[min(len(ordered) - 1, int(q * len(ordered)))] for q in (0.05, 0.25, 0.5, 0.75, 0.95)]
            print(f"  {name}, {what}: " + " / ".join(f"{p:.2f}" for p in picked))


if __name__ == "__main__":
    main()
