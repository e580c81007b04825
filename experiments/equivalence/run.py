#!/usr/bin/python3
"""Holds the programs of the working tree against those of a base commit: the same input must give the same results.

usage: experiments/equivalence/run.py [--base COMMIT | --base-build DIR] [--build DIR] [--quick] [--may-gain MEMBER]...

Random configurations are simulated by both until enough of them are legal; samples are traced, explained, listed by
layer and printed, small ones executed on the CPU. Plans, sweeps, schedules, imports, exports, validations, the paper's
tables and the files of configs/ are compared besides. What is compared of a command: its exit code, all values that it
prints, its warnings, and every file that it writes. Left out are only wall-clock times, versions and command lines.

Prints a line per kind, and each difference with its input and the first value that differs; exits 1 if anything
differs, if a member was gained that --may-gain does not name, or if the configurations do not cover every key and word
that the base accepts. What differs stays below build/equivalence/run. It needs Debian's python3-h5py and python3-yaml.
"""

import argparse
import collections
import concurrent.futures
import json
import random
import re
import shutil
import sys
import time

import builds
import cases
import comparison
import coverage
import runs

FOLDER = builds.ROOT / "build" / "equivalence" / "run"
SIZES = {"trace": 60, "explain": 60, "layer": 40, "print": 40, "execute": 240}
QUICK_SIZES = {"trace": 8, "explain": 6, "layer": 6, "print": 6, "execute": 24}
COVERING_COUNT = 1000  # fewer configurations than these need not cover everything


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="5d46324c", metavar="COMMIT", help="is built below build/ (%(default)s)")
    parser.add_argument("--base-build", metavar="DIR", help="a folder with the base's programs, built already")
    parser.add_argument("--build", metavar="DIR", help="a folder with the new programs, built already")
    parser.add_argument("--count", type=int, help="configurations to simulate (default: 1000, with --quick 150)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="smaller samples, in about a minute")
    parser.add_argument("--only", metavar="KIND,...", help="these kinds alone, and simulate, whose runs they take")
    parser.add_argument("--may-gain", action="append", default=[], metavar="MEMBER",
                        help="a member that the new documents may have besides, such as config.sharding")
    options = parser.parse_args()
    options.count = options.count or (150 if options.quick else 1000)
    return options


class Report:
    """Counts what was compared, by kind."""

    def __init__(self, may_gain):
        self.counts = collections.defaultdict(collections.Counter)
        self.differences = collections.defaultdict(list)
        self.gained = collections.Counter()
        self.may_gain = [re.compile(rf"(^|\.){re.escape(member)}($|[.\[])") for member in may_gain]

    def add(self, outcome):
        case = outcome.case
        self.counts[case.kind]["compared"] += 1
        self.counts[case.kind]["refused"] += outcome.code != 0
        self.gained.update(outcome.gained)
        if outcome.difference:
            where = case.source or FOLDER / case.kind / case.name
            self.differences[case.kind].append(f"  {where}: {outcome.difference}")

    def print_kind(self, kind):
        counts = self.counts[kind]
        print(f"{kind}: {counts['compared']} compared, {counts['refused']} of them errors of the base; "
              f"{len(self.differences[kind])} differences", flush=True)
        for line in self.differences[kind][:20]:
            print(line)

    def finish(self, missing):
        """Prints what is wrong beside the differences; returns the exit code."""
        refused = 0
        for member, count in sorted(self.gained.items()):
            is_allowed = any(allowed.search(member) for allowed in self.may_gain)
            refused += not is_allowed
            print(f"gained: {member} in {count}" + ("" if is_allowed else ", which --may-gain does not name"))
        if missing:
            print(f"not covered: {' '.join(sorted(missing))}")
        return 1 if refused or missing or any(self.differences.values()) else 0


def random_cases(kind, options, inputs, small):
    """An endless stream of run files, each written beside the others, with the command that reads it."""
    rng = random.Random(f"{options.seed} {kind}")
    folder = FOLDER / "inputs"
    folder.mkdir(exist_ok=True)
    number = 0
    while True:
        path = folder / f"{kind}-{number:05}.json"
        run = runs.random_run(rng, inputs, path, small)
        path.write_text(json.dumps(run))
        more = ["--json"]
        if kind == "execute":
            more += ["--clock", "virtual", "--steps", "2", "--trace", "t.h5"]
            more += rng.choice([[], ["--save", "saved"], ["--allocator", "pytorch"], ["--detail", "chunk"],
                                ["--check-lifetimes"]])
        elif number % 20 == 0:
            more += ["--price", "2.5/gpu-hour", "--power", "850W", "--tokens", "300e9", "--require-fit"]
        command = "run" if kind == "execute" else "simulate"
        case = comparison.Case(kind, path.stem, [command, path, *more], source=str(path))
        if kind == "execute":
            case.program, case.measures = "stagecraft-exec", True
        yield run, case
        number += 1


def compare_random(pool, kind, count, options, inputs, pair, report):
    """Compares random configurations until the base accepts `count` of them; returns these with their run files."""
    accepted = []
    stream = random_cases(kind, options, inputs, small=kind == "execute")
    while len(accepted) < count:
        batch = [next(stream) for _ in range(min(64, 2 * (count - len(accepted)) + 8))]
        outcomes = pool.map(comparison.compare, [case for _, case in batch], [pair] * len(batch), [FOLDER] * len(batch))
        for (run, case), outcome in zip(batch, outcomes):
            report.add(outcome)
            if outcome.code in (0, 3):  # 3: it does not fit, and is simulated all the same
                accepted.append((run, case))
        if report.counts[kind]["compared"] > 8 * count + 400:
            raise SystemExit(f"{kind}: the base refuses too much")
    report.print_kind(kind)
    return accepted


def sample(accepted, count):
    """So many configurations, first those with features that the ones before them lack."""
    seen, first, rest = set(), [], []
    for run, case in accepted:
        found = coverage.features_of(run)
        (rest if found <= seen else first).append(case)
        seen |= found
    return (first + rest)[:count]


def fixed_cases(options, inputs, accepted, base, sizes):
    """Everything but random configurations; the longest first, so that no job is left alone with them at the end."""
    source, quick = base.source, options.quick
    trace = FOLDER / "inputs" / "exported.h5"
    traced = comparison.Case("export", "made", ["simulate", "eight", "--detail", "op", "--trace", trace])
    comparison.execute(traced, base, FOLDER / "made")
    found = cases.plans(inputs, quick) + cases.reproductions(quick) + cases.validations(source, quick)
    found += cases.sweeps(inputs, FOLDER / "inputs", quick)
    options_of = {"explain": ["explain", "--json"], "trace": ["simulate", "--detail", "op", "--trace", "t.h5"],
                  "layer": ["layer", "--json"], "print": ["simulate", "--print-config"]}
    for kind, (command, *more) in options_of.items():
        for case in sample(accepted, sizes[kind]):
            found.append(comparison.Case(kind, case.name, [command, case.source, *more], source=case.source))
    found += cases.schedules(inputs["orders"]) + cases.imports(source, inputs)
    return found + cases.exports(trace) + cases.shipped(inputs, source)


def compare_all(options, base, new):
    shutil.rmtree(FOLDER, ignore_errors=True)
    (FOLDER / "inputs").mkdir(parents=True)
    root = FOLDER / "inputs" / "configs"
    shutil.copytree(base.source / "configs", root)  # so that they are the own files of neither program
    inputs = {"root": root, "orders": cases.write_orders(base, FOLDER / "inputs" / "orders")}
    for group in ("systems", "software"):
        inputs[group] = sorted((root / group).glob("*.yaml"))
    sizes = QUICK_SIZES if options.quick else SIZES
    report = Report(options.may_gain)
    covered = collections.Counter()
    wanted = options.only.split(",") if options.only else None
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        accepted = compare_random(pool, "simulate", options.count, options, inputs, (base, new), report)
        for run, _ in accepted:
            covered.update(coverage.features_of(run))
        others = fixed_cases(options, inputs, accepted, base, sizes)
        others = [case for case in others if wanted is None or case.kind in wanted]
        for outcome in pool.map(comparison.compare, others, [(base, new)] * len(others), [FOLDER] * len(others)):
            report.add(outcome)
        for kind in dict.fromkeys(case.kind for case in others):
            report.print_kind(kind)
        if wanted is None or "execute" in wanted:
            compare_random(pool, "execute", sizes["execute"], options, inputs, (base, new), report)
    asked = coverage.asked(base)
    print(f"of {len(accepted)} simulated configurations, those with each key and word:")
    print(coverage.table({name: covered[name] for name in sorted(asked)}))
    return report.finish(asked - set(covered) if options.count >= COVERING_COUNT else set())


def main():
    options = read_options()
    base = builds.existing_build(options.base_build or builds.base_build(options.base, options.jobs))
    new = builds.existing_build(options.build or builds.make(builds.ROOT, options.jobs))
    begin = time.monotonic()
    code = compare_all(options, base, new)
    print(f"{time.monotonic() - begin:.0f} s; exit {code}")
    return code


if __name__ == "__main__":
    sys.exit(main())
