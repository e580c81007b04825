#!/usr/bin/env python3
"""How much each prediction of Table 5 moves when a constant of the system moves by 10 %.

    python3 experiments/sensitivity/run.py PROGRAM [CONFIG_FOLDER]

Every scalar constant of configs/systems/selene-a100.yaml is set to 1.1 times and 0.9 times its value
(measured tables: all their times); prints, for each of the eight rows, the larger of the two changes in
percent, most sensitive constant first; an efficiency is set to 1 at most. Needs python3-yaml.
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

import yaml

RUNS = [f"{model}-{case}" for model in ("22b", "175b", "530b", "1t") for case in ("full", "present")]
# Sizes and counts are facts of the machine, not constants that could be a little off.
FACTS = {"multiprocessors", "accelerators", "memory", "workspace"}


def scaled(value, factor):
    """A number, a quantity, a map or a measured table with every magnitude (every time of a table) scaled."""
    if isinstance(value, dict):
        return {key: entry if key == "ranks" else scaled(entry, factor) for key, entry in value.items()}
    if isinstance(value, list):
        return [[size, scaled(time, factor)] for size, time in value]
    if isinstance(value, str):
        number, unit = re.fullmatch(r"([\d.]+) (.*)", value).groups()
        return f"{float(number) * factor:.12g} {unit}"
    return float(f"{value * factor:.12g}")


def constants(system):
    for section in ("accelerator", "node", "network", "calibration"):
        for name, entry in system[section].items():
            if isinstance(entry, dict) and name not in FACTS:
                yield f"{section}.{name}", entry["value"]


def iteration(program, run, override=None):
    command = [program, "simulate", str(run), "--json"] + (["--set", override] if override else [])
    result = subprocess.run(command, capture_output=True, text=True)
    if override and result.returncode == 2:
        return None
    result.check_returncode()
    return json.loads(result.stdout)["iteration_seconds"]


def largest_change(program, run, key, value):
    """The larger change of a run's time, in percent, with a tenth more and a tenth less of a constant."""
    base = iteration(program, run)
    times = []
    for factor in (1.1, 0.9):
        override = f"system.{key}.value="
        seconds = iteration(program, run, override + json.dumps(scaled(value, factor)))
        # What is refused is an efficiency above 1: the largest that there is stands for it.
        times.append(seconds or iteration(program, run, override + "1"))
    return max((100 * (seconds / base - 1) for seconds in times), key=abs)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    program = sys.argv[1]
    folder = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else
                          pathlib.Path(__file__).resolve().parents[2] / "configs")
    system = yaml.safe_load((folder / "systems" / "selene-a100.yaml").read_text())
    runs = [folder / "paper" / f"{name}.yaml" for name in RUNS]

    def row(constant):
        return constant[0], [largest_change(program, run, *constant) for run in runs]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rows = sorted(pool.map(row, constants(system)), key=lambda r: -max(map(abs, r[1])))
    print("| constant, 10 % off | " + " | ".join(RUNS) + " |")
    print("|---|" + "---|" * len(RUNS))
    for key, changes in rows:
        print(f"| {key} | " + " | ".join(f"{change:+.1f}" for change in changes) + " |")


if __name__ == "__main__":
    main()
