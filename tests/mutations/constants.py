#!/usr/bin/env python3
"""Scales each number of the shipped system and software files, one at a time, and demands that the tests notice.

usage: tests/mutations/constants.py PROGRAM [--factor 1.1] [FILE...]

FILE: names of configs/systems and configs/software, `selene-a100`; without them all. A copy of `configs` is changed. First
tests/accuracy/constants_test.py looks at the changed file; what it leaves to predictions (constants that were fitted) goes
to tests/accuracy/accuracy_test.py, which takes seconds. Whole numbers that a factor would not change are raised by one,
shares that would exceed 1 are lowered; choices and switches (`overlap: unless_sharded`) are left alone. Prints what survives,
and exits 1 if something does. Part of tests/run.sh --nightly. Needs python3-yaml.
"""
import argparse
import csv
import pathlib
import re
import shutil
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "accuracy"))
import accuracy_test  # noqa: E402
import constants_test  # noqa: E402

NUMBER = re.compile(r"([\d.]+)(.*)")


def numbers(path):
    """(key, node) of each number below a `value` of a YAML file."""
    def below(node, key):
        if isinstance(node, yaml.MappingNode):
            for name, entry in node.value:
                yield from below(entry, f"{key}.{name.value}")
        elif isinstance(node, yaml.ScalarNode) and NUMBER.fullmatch(node.value):
            yield key, node

    for section, content in yaml.compose(path.read_text()).value:
        if isinstance(content, yaml.MappingNode):
            for name, constant in content.value:
                values = dict((key.value, node) for key, node in constant.value) if isinstance(constant, yaml.MappingNode) else {}
                if "value" in values:
                    yield from below(values["value"], f"{section.value}.{name.value}")


def scaled(text, factor):
    number, unit = NUMBER.fullmatch(text).groups()
    if re.fullmatch(r"\d+", number) and not unit:
        return str(max(int(number) + 1, round(int(number) * factor)))
    moved = float(number) * factor
    if not unit and float(number) < 1 < moved:
        moved = float(number) / factor  # a share; more than all of it is refused
    return f"{moved if moved > 0 else factor:.6g}{unit}"


def is_noticed_by_accuracy(program, configs):
    claims = accuracy_test.Claims()
    accuracy_test.check_tables(program, configs, claims)
    if not claims.problems:
        accuracy_test.check_runs(program, configs, claims)
    return bool(claims.problems)


def survivors_of_file(program, path, factor):
    text = path.read_text()
    for key, node in numbers(path):
        changed = scaled(node.value, factor)
        path.write_text(text[:node.start_mark.index] + changed + text[node.end_mark.index:])
        if not any(constants_test.problems_of_file(program, path)):
            if not is_noticed_by_accuracy(program, path.parent.parent):
                yield f"{path.stem}: {key}: {node.value} -> {changed}"
        path.write_text(text)


def survivors_of_tables(path, factor):
    """A column of measured times is one constant."""
    with open(path, newline="") as file:
        head, *rows = csv.reader(file)
    text = path.read_text()
    for column in range(1, len(head)):
        with open(path, "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(head)
            writer.writerows([*row[:column], f"{float(row[column]) * factor:.6g}", *row[column + 1:]] for row in rows)
        if not any(constants_test.problems_of_tables(path)):
            yield f"{path.name}: {head[column]}"
    path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--factor", type=float, default=1.1)
    options = parser.parse_args()
    tried = 0
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        configs = pathlib.Path(folder) / "configs"
        shutil.copytree(ROOT / "configs", configs)
        chosen = [path for path in constants_test.files(configs) if not options.files or path.stem in options.files]
        for path in chosen:
            tried += sum(1 for _ in numbers(path))
            for survivor in survivors_of_file(options.program, path, options.factor):
                print("SURVIVED", survivor, flush=True)
                survivors.append(survivor)
        if not options.files:
            tables = configs / "systems" / "vtrain-a100-all-reduce.csv"
            tried += len(tables.read_text().splitlines()[0].split(",")) - 1
            for survivor in survivors_of_tables(tables, options.factor):
                print("SURVIVED", survivor, flush=True)
                survivors.append(survivor)
    print(f"{tried - len(survivors)} of {tried} changed constants noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
