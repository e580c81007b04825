#!/usr/bin/env python3
"""Every number of the shipped system and software files is within 5 % of what known_constants.py says.

usage: constants_test.py PROGRAM [CONFIG_FOLDER]

So a number that is changed by 10 % is noticed, and a new one needs an entry, whatever it does to predictions.
"""
import csv
import json
import pathlib
import re
import subprocess
import sys

import known_constants as known

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNITS = {"": 1, "B": 1, "TB": 1e12, "TiB": 2**40, "MB": known.MB, "GB": known.GB, "MiB": known.MiB, "KiB": known.KiB,
         "GiB": known.GiB, "s": 1,
         "ms": known.ms, "us": known.us, "GB/s": 1e9, "TB/s": 1e12, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15}
TOLERANCE = 0.05
TABLE_SIZES = (41 * 2**20, 410 * 2**20, 1024 * 2**20)
EXPECTED = {(file, key): value for file, key, value in known.HARDWARE + known.CALIBRATION + known.SOFTWARE}


def base_of(path):
    """The name of the file from which this one inherits, or was made."""
    base = re.search(r"^base: *(\S+)", path.read_text(), re.MULTILINE)
    return base[1] if base else known.MADE_FROM.get(path.stem)


def expected(folder, name, key):
    """What the key should be: of the file, else of its base; "fitted" if that says so. None if nobody says."""
    while name:
        if (name, key) in known.FITTED:
            return "fitted"
        if (name, key) in EXPECTED:
            return EXPECTED[name, key]
        name = base_of(folder / f"{name}.yaml")
    return None


def constants(program, path):
    """(key, value in units of SI) of each constant that is a number."""
    command = "system" if path.parent.name == "systems" else "software"
    text = subprocess.run([program, command, str(path), "--json"], capture_output=True, text=True)
    if text.returncode != 0:
        sys.exit(f"{path}: {text.stderr}")
    for row in json.loads(text.stdout)["constants"]:
        if re.fullmatch(r"[\d.e+-]+", row["value"]):
            yield row["key"], float(row["value"]) * UNITS[row["unit"]]


def problems_of_file(program, path):
    for key, value in constants(program, path):
        should = expected(path.parent, path.stem, key)
        if should == "fitted":
            continue
        if should is None:
            yield f"{path.stem}: {key}: found {value:g}; accepted: a key that known_constants.py has"
        elif abs(value - should) > TOLERANCE * should:
            yield f"{path.stem}: {key}: found {value:g}; accepted: {should:g} within {100 * TOLERANCE:.0f} %"


def problems_of_tables(path):
    """All-reduces of large tensors: a ring among n ranks moves 2 (n-1)/n of the bytes."""
    with open(path, newline="") as file:
        rows = {int(row["bytes"]): row for row in csv.DictReader(file)}
    for ranks, rates in known.ALL_REDUCES.items():
        for size, rate in zip(TABLE_SIZES, rates):
            seconds = float(rows[size][f"all_reduce 1x{ranks}"]) * 1e-6
            found = 2 * (ranks - 1) / ranks * size / seconds / 1e9
            if abs(found - rate) > TOLERANCE * rate:
                yield f"{path.name}: {size} bytes on {ranks} ranks: found {found:.1f} GB/s; accepted: {rate} within 5 %"


def files(folder):
    return sorted([*(folder / "systems").glob("*.yaml"), *(folder / "software").glob("*.yaml")])


def main():
    program = sys.argv[1]
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "configs"
    problems = [problem for path in files(folder) for problem in problems_of_file(program, path)]
    problems += problems_of_tables(folder / "systems" / "vtrain-a100-all-reduce.csv")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
