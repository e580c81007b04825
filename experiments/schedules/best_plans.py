#!/usr/bin/env python3
"""The fastest plan of each family of schedules, with each recompute, that fits into 60, 70 and 80 GiB.

usage: best_plans.py PROGRAM [--only NAME] [--family NAME] [-o FOLDER]   the built stagecraft; FOLDER: beside this script

Layout and batch of each run stay; schedule, chunks a stage, what a stage may hold, transfers and the place of
recompute vary. Writes every prediction to best_plans.csv and the tables to best-plans.md. With --only or --family
the other predictions are those that best_plans.csv has.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CONFIGS = HERE.parent.parent / "configs"
GIB = 2**30
CAPACITIES = (60, 70, 80)
NUMBERS = ("seconds", "bubble", "gib", "ideal_seconds", "step_seconds")
NAMES = ("run", "family", "recompute", "policy", "chunks", "schedule", *NUMBERS)

HEAD = """\
# The best plan of each family of schedules, with recompute

Made by `experiments/schedules/best_plans.py PROGRAM`, for those who ask what a schedule with split backward gives beside
recompute. All numbers are predictions; nobody has measured these runs with such schedules.

Layout and batch of each run stay as in its title, with sequence parallelism. Tried are: the schedules of each family with
1 to 3 chunks a stage where the layers can be divided, messages that block or overlap, what a stage may hold (`memory_limit`),
and for each recompute also `early: bubble` (*early*) and `for_weights: again` (*again*). Where 2 chunks do not divide the
layers, the first chunks have one more. A cell is the fastest plan whose fullest stage takes at most so much of its device
(tensors, fragments and what lies outside the allocator): time of an iteration, bubble over the busiest stage's work, memory, the
schedule, and how far it is above the lower bound of its recompute. `-`: none fits. `best_plans.csv` has all predictions.

The lower bound holds for any order on one chunk a stage or on two, whatever memory it takes: a stage waits for its first
microbatch, does all its work, and the last gradient travels back to the first stage. Work that differs by stage is averaged, but
the bound is at least what the busiest stage computes. With three chunks a stage starts earlier than the bound assumes; `dualpipe`, which
starts from both ends, has no other bound than its own work.

`dualpipe` holds two copies of the model: a stage has the parameters, gradients and optimizer state of two parts, and half of the
microbatches go each way. It needs an even number of stages.

`searched` is the best of all orders that are known within a limit: two searches with each stage's own costs (20,000 changes, 200
with more than 8 stages), one of which splits every backward while the other may join the halves where they are adjacent, and all
named schedules with overlapped messages. Each is judged by a prediction of the run with it.
"""

# Name, title, configuration, settings, stages, layers, chunk counts that divide the layers.
Run = collections.namedtuple("Run", "name title config settings stages layers chunks")
RUNS = [
    Run("175b", "175B: t 8, p 8, 64 microbatches of 1, A100", "175b-present", [], 8, 96, (2, 3)),
    Run("530b", "530B: t 8, p 35, 280 microbatches of 1, A100", "530b-present", [], 35, 105, (3,)),
    Run("1t", "1T: t 8, p 64, 512 microbatches of 1, A100", "1t-present", [], 64, 128, (2,)),
    Run("22b", "22B: t 2, p 4, 32 microbatches of 1, A100", "22b-present",
        ["parallel.tensor=2", "parallel.pipeline=4", "batch={global: 32, micro: 1}"], 4, 48, (2, 3)),
    Run("175b-h100", "GPT-3 175B on 1,024 H100: t 8, p 8, d 16, 128 microbatches of 1, sharded optimizer", "175b-present",
        ["system=../systems/dgx-h100.yaml", "parallel.data=16", "batch={global: 2048, micro: 1}",
         "memory.distributed_optimizer=true"], 8, 96, (2, 3)),
]
RECOMPUTES = {
    "none": ["none"],
    "selective": ["selective", "{granularity: selective, early: bubble}"],
    "full": ["full", "{granularity: full, early: bubble}", "{granularity: full, for_weights: again}"],
}


def searched(run, limit):
    iterations = 20000 if run.stages <= 8 else 200
    return f"{{kind: searched, memory_limit: {limit}, iterations: {iterations}, seconds: 60}}"


def schedules(run):
    """(family, chunks, text of the key `schedule`), all with overlapped transfers but for Megatron's."""
    p = run.stages
    for p2p in ("blocking", "overlapped"):
        yield "1F1B, interleaved", 1, f"{{kind: 1f1b, p2p: {p2p}}}"
        for chunks in run.chunks:
            yield "1F1B, interleaved", chunks, f"{{kind: interleaved, p2p: {p2p}}}"
    yield "zb_h1", 1, "{kind: zb_h1}"
    yield "zb_h2, zb_auto", 1, "{kind: zb_h2}"
    for limit in (p, 5 * p // 4, 3 * p // 2, 2 * p):
        yield "zb_h2, zb_auto", 1, f"{{kind: zb_auto, memory_limit: {limit}}}"
        yield "searched", 1, searched(run, limit)
    for chunks in run.chunks:
        yield "interleaved_zb", chunks, "{kind: interleaved_zb}"
    for kind in ("zbv", "v_half", "v_min", "dualpipev"):
        yield kind, 2, f"{{kind: {kind}}}"
    yield "zbv", 2, "{kind: zbv, variant: auto}"
    yield "dualpipe", 2, "{kind: dualpipe}"
    # As much as v_half, zbv, dualpipev and interleaved 1F1B hold.
    for limit in (2 * (p // 2 + 1), 2 * p, 2 * p + 1, 3 * p - 1):
        yield "searched", 2, searched(run, limit)
    if 3 in run.chunks:
        for limit in (3 * p, 4 * p - 1):
            yield "searched", 3, searched(run, limit)


def settings(run, chunks, schedule, recompute):
    """The run's settings as words of a command line."""
    words = [*run.settings, "parallel.sequence=true", f"parallel.interleave={chunks}", f"schedule={schedule}",
             f"recompute={recompute}"]
    chunks //= 2 if "dualpipe}" in schedule else 1  # of one copy of the model
    if run.layers % (run.stages * chunks):  # virtual stages in model order: the first chunks have a layer more
        each, more = divmod(run.layers, run.stages * chunks)
        layers = [each + (number < more) for number in range(run.stages * chunks)]
        words.append("layout=[" + ", ".join(map(str, layers)) + "]")
    return [word for setting in words for word in ("--set", setting)]


def ask(program, command, *words):
    result = subprocess.run([program, command, *words, "--json"], capture_output=True, text=True)
    return json.loads(result.stdout) if result.returncode == 0 else None


def config(run):
    return str(CONFIGS / "paper" / f"{run.config}.yaml")


def predict(program, task):
    run, recompute_name, recompute, family, chunks, schedule = task
    found = ask(program, "simulate", config(run), *settings(run, chunks, schedule, recompute))
    row = {"run": run.name, "family": family, "recompute": recompute_name, "policy": recompute, "chunks": chunks,
           "schedule": schedule}
    if found is None:
        return row
    breakdown = found["breakdown_seconds"]
    return row | {
        "seconds": round(found["iteration_seconds"], 4),
        "bubble": round(found["bubble_fraction"], 4),
        "gib": round(max(stage["device_bytes"] for stage in found["stages"]) / GIB, 2),
        "ideal_seconds": round(found["ideal_seconds"], 4),
        "step_seconds": round(breakdown["data_parallel"] + breakdown["optimizer"], 4),
    }


def mean_times(program, run, schedule, recompute):
    """By phase, the mean time of a stage's part in seconds; of messages the shortest."""
    with tempfile.TemporaryDirectory() as folder:
        trace, table = f"{folder}/t.h5", f"{folder}/t.csv"
        words = settings(run, 1, schedule, recompute)
        subprocess.run([program, "simulate", config(run), *words, "--trace", trace], check=True, capture_output=True)
        subprocess.run([program, "export", trace, "--format", "csv", "-o", table], check=True, capture_output=True)
        times = collections.defaultdict(list)
        with open(table) as rows:
            for row in csv.DictReader(rows):
                times[row["phase"]].append(int(row["duration_ps"]) * 1e-12)
    return {phase: min(found) if phase == "transfer" else statistics.mean(found) for phase, found in times.items()}


def bounds(program, run, microbatches):
    """By recompute: seconds that no order on one or two chunks a stage undercuts, with any memory.

    A whole backward may take less than its two halves, and recompute may hide where a stage waits for the first
    gradient, so the bound is that of the cheaper backward without recompute, plus all recompute of a stage.
    """
    split = {name: mean_times(program, run, "{kind: zb_h2}", name) for name in RECOMPUTES}
    whole = mean_times(program, run, "{kind: 1f1b, p2p: overlapped}", "none")
    times = split["none"]
    gradient = min(times["input_gradient"], whole["backward"] - times["weight_gradient"])
    costs = {"--forward": times["forward"], "--input-gradient": gradient, "--weight-gradient": times["weight_gradient"]}
    found = []
    for chunks in (1, 2):
        words = ["--schedule", "searched", "-p", str(run.stages), "-m", str(chunks), "-n", str(microbatches)]
        for name, cost in costs.items():
            words += [name, repr(cost / chunks)]
        words += ["--transfer", repr(times["transfer"]), "--iterations", "0"]
        words += ["--memory-limit", str(3 * run.stages * chunks)]
        found.append(ask(program, "schedule", *words)["lower_bound"])
    return {name: min(found) + microbatches * (of["input_gradient"] - times["input_gradient"])
            for name, of in split.items()}


def text_of(row, bound):
    variant = row["schedule"].strip("{}").replace("kind: ", "")
    variant = re.sub(r", iterations: \d+, seconds: 60", "", variant)
    variant = variant.replace("memory_limit: ", "limit ").replace("variant: ", "").replace("p2p: ", "")
    more = " early" if "early" in row["policy"] else " again" if "again" in row["policy"] else ""
    chunks = f", m {row['chunks']}" if row["chunks"] > 1 else ""
    return f"{row['seconds']:.2f} s, {100 * row['bubble']:.1f} %, {row['gib']:.1f} GiB ({variant}{chunks}{more}; +{100 * (row['seconds'] / bound - 1):.1f} %)"


def table(run, rows, limits):
    lines = [f"## {run.title}", ""]
    lines += ["| family | recompute | " + " | ".join(f"{c} GiB" for c in CAPACITIES) + " |", "|---|---|---|---|---|"]
    bound = {}
    for recompute in RECOMPUTES:
        own = [row for row in rows if row["recompute"] == recompute and "seconds" in row]
        if not own:
            continue
        # One policy recomputes as much as another; the least busy one bounds all.
        ideal = min(row["ideal_seconds"] for row in own)
        step = min(row["step_seconds"] for row in own)
        bound[recompute] = max(ideal, limits[recompute] + step)
    for family in dict.fromkeys(row["family"] for row in rows):
        for recompute in RECOMPUTES:
            own = [r for r in rows if r["family"] == family and r["recompute"] == recompute and "seconds" in r]
            cells = []
            for capacity in CAPACITIES:
                fitting = [row for row in own if row["gib"] <= capacity]
                best = min(fitting, key=lambda row: (row["seconds"], row["gib"])) if fitting else None
                cells.append(text_of(best, bound[recompute]) if best else "-")
            cells = [cell if i == 0 or cell == "-" or cell != cells[i - 1] else "the same" for i, cell in enumerate(cells)]
            lines.append(f"| {family} | {recompute} | " + " | ".join(cells) + " |")
    lines += ["", "Lower bound: " + ", ".join(f"{name} {value:.2f} s" for name, value in bound.items()) + ".", ""]
    for recompute in bound:
        named = [r for r in rows if r["recompute"] == recompute and "seconds" in r and r["family"] != "searched"]
        searched = [r for r in rows if r["recompute"] == recompute and "seconds" in r and r["family"] == "searched"]
        for capacity in CAPACITIES:
            ours = min((r["seconds"] for r in searched if r["gib"] <= capacity), default=None)
            best = min((r for r in named if r["gib"] <= capacity), key=lambda r: r["seconds"], default=None)
            if ours is None or best is None:
                continue
            lines.append(f"* {recompute}, {capacity} GiB: searched {ours:.2f} s, {100 * (ours / bound[recompute] - 1):.1f} % "
                         f"above the bound; best named {best['seconds']:.2f} s ({best['family']}), searched is "
                         f"{100 * (ours / best['seconds'] - 1):+.1f} %")
    return lines + [""]


def read_rows(path):
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        for key, text in list(row.items()):
            if key == "chunks":
                row[key] = int(text)
            elif key in NUMBERS and text:
                row[key] = float(text)
            elif key in NUMBERS:
                del row[key]
    return rows


def write_rows(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, NAMES, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--only", help="one run: " + ", ".join(run.name for run in RUNS))
    parser.add_argument("--family", help="one family of schedules, as in the tables")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE)
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    data = asked.output / "best_plans.csv"
    known = read_rows(data) if (asked.only or asked.family) and data.exists() else []
    lines = [*HEAD.splitlines(), ""]
    everything = []
    for run in RUNS:
        def is_asked(family):
            return asked.only in (None, run.name) and asked.family in (None, family)
        families = list(dict.fromkeys(family for family, _, _ in schedules(run)))
        tasks = [(run, name, policy, family, chunks, schedule)
                 for name, policies in RECOMPUTES.items() for policy in policies
                 for family, chunks, schedule in schedules(run)
                 if is_asked(family) and not ("blocking" in schedule and "early" in policy)]
        with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
            made = list(pool.map(lambda task: predict(asked.program, task), tasks))
        rows = made + [row for row in known if row["run"] == run.name and not is_asked(row["family"])]
        rows.sort(key=lambda row: families.index(row["family"]))
        everything += rows
        if not rows:
            continue
        shape = ask(asked.program, "simulate", config(run), *settings(run, 1, "{kind: zb_h1}", "full"))["config"]
        microbatches = shape["batch"]["global"] // shape["batch"]["micro"] // shape["parallel"]["data"]
        lines += table(run, rows, bounds(asked.program, run, microbatches))
        print(f"{run.name}: {len(made)} plans, {sum('seconds' not in row for row in made)} refused", flush=True)
    write_rows(data, everything)
    (asked.output / "best-plans.md").write_text("\n".join(lines).rstrip() + "\n")


if __name__ == "__main__":
    main()
