#!/usr/bin/env python3
"""The pages' claims about accuracy hold: each printed error within 0.05 points of what it is, and its last digit.

usage: accuracy_test.py PROGRAM [CONFIG_FOLDER]

Table 4 and Table 5 against experiments/README.md, each row of Table 5 and the medians by machine against README.md, and runs
that others measured against the table of experiments/validation/regimes.md: of nanotron's sweep some regimes, as all of it takes
long. The rows of experiments/validation/README.md are rows of that table. Runs of Megatron-Bridge are held against
low-precision.md. It also checks that the paper's runs fit, the ratios of experiments/rings, and rows of experiments/sensitivity.
"""
import csv
import importlib.util
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
VALIDATION = ROOT / "experiments" / "validation"
MARGIN = 0.05  # points, beside half of the last printed digit
CASES = {  # of Table 4, whose layer is one of the 22B model: recompute, sequence parallelism
    "baseline": ("none", "false"), "sequence": ("none", "true"), "full": ("full", "false"),
    "selective": ("selective", "false"), "selective_sequence": ("selective", "true"),
}


def tensor_of(row):
    return int(row["parallel.tensor"])


def is_deep(row):
    return int(row["parallel.pipeline"]) > 1


REGIMES = (  # data file, first cell of the page's row, which runs; as experiments/validation/table.py has them
    ("nanotron", "H100, nanotron sweep, campaign A, t up to 8", lambda row: row["software"] == "nanotron" and tensor_of(row) <= 8),
    ("nanotron", "H100, nanotron sweep, campaign A, t above 8", lambda row: row["software"] == "nanotron" and tensor_of(row) > 8),
    *(("nanotron", f"H100, nanotron, t {t}, p {'> 1' if deep else '1'}",
       lambda row, t=t, deep=deep: row["software"] == "nanotron" and tensor_of(row) == t and is_deep(row) == deep)
      for t, deep in ((1, False), (2, False), (4, False), (8, False), (16, False), (32, False), (1, True), (8, True))),
    ("nanotron", "H100, nanotron with checked collectives, t 16, p 1",
     lambda row: row["software"] == "nanotron-checked" and tensor_of(row) == 16 and not is_deep(row)),
    ("nanotron", "H100, nanotron with checked collectives, t 1, p > 1",
     lambda row: row["software"] == "nanotron-checked" and tensor_of(row) == 1 and is_deep(row)),
    *(("vtrain-single-node", f"A100, one node, Megatron-DeepSpeed, t {t}", lambda row, t=t: tensor_of(row) == t)
      for t in (1, 2, 4, 8)),
    ("vtrain-multi-node", "A100, 64 to 512, Megatron-DeepSpeed, all", lambda row: True),
    ("narayanan-2021", "A100, Narayanan et al. 2021, table 1", lambda row: True),
    ("llm-foundry", "A100 and H100, all, FSDP1, llm-foundry", lambda row: True),
    ("llm-foundry", "H100, 16 to 512, FSDP1, llm-foundry", lambda row: row["group"] == "h100 16 and more"),
    ("torchtitan", "FSDP2, torchtitan and KempnerForge, all", lambda row: True),
)


class Claims:
    """Compares what pages claim with what it is."""

    def __init__(self):
        self.checked = 0
        self.problems = []

    def compare(self, place, claimed, found):
        self.checked += 1
        digits = len(claimed.partition(".")[2])
        if abs(float(claimed) - found) > MARGIN + 0.5 * 10 ** -digits + 1e-9:
            self.problems.append(f"{place}: found {found:+.3f} %; accepted: what the page says, {claimed} %")


def document(program, *arguments):
    result = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {result.stderr}")
    return json.loads(result.stdout)


def errors_of_tables(program, configs):
    """Errors in percent: of Table 4, and by run of Table 5. Published times are those that `reproduce` prints."""
    published = document(program, "reproduce", "table4", "table5")
    times = {(row["case"], row["quantity"]): row["published"] for row in published["table4"]}
    run = configs / "paper" / "22b-full.yaml"
    table4 = []
    for case, (recompute, sequence) in CASES.items():
        layer = document(program, "simulate", run, "--set", f"recompute={recompute}",
                         "--set", f"parallel.sequence={sequence}")["layer"]
        table4.append(100 * (layer["forward_seconds"] / times[case, "forward_seconds"] - 1))
        backward = layer["backward_seconds"] + layer["recompute_seconds"]
        table4.append(100 * (backward / times[case, "backward_seconds"] - 1))
    table5 = {}
    for row in published["table5"]:
        if row["quantity"] == "iteration_seconds":
            run = configs / "paper" / f"{row['model'].lower()}-{row['case']}.yaml"
            seconds = document(program, "simulate", run)["iteration_seconds"]
            table5[row["model"], row["case"]] = 100 * (seconds / row["published"] - 1)
    return table4, table5


def check_tables(program, configs, claims):
    table4, table5 = errors_of_tables(program, configs)
    page = (ROOT / "experiments" / "README.md").read_text()
    for title, errors in (("Table 4, times of one layer (10)", table4), ("Table 5, iteration times (8)", table5.values())):
        mean, largest = re.search(rf"^\| {re.escape(title)} \| ([\d.]+) % \| ([\d.]+) % \|", page, re.MULTILINE).groups()
        sizes = [abs(error) for error in errors]
        claims.compare(f"{title}, mean", mean, statistics.mean(sizes))
        claims.compare(f"{title}, largest", largest, max(sizes))
    readme = (ROOT / "README.md").read_text()
    for (model, case), error in table5.items():
        claimed = re.search(rf"^{model} +{case} +iteration_seconds .* ([+-][\d.]+) %$", readme, re.MULTILINE)[1]
        claims.compare(f"Table 5, {model} {case}", claimed, error)


def errors_of_runs(program, configs, name, is_wanted, folder):
    """(row of the data file, error in percent) of the timed runs that are wanted. Memory is not predicted."""
    with open(VALIDATION / "data" / f"{name}.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["measured.iteration_seconds"] and is_wanted(row)]
    columns = [column for column in rows[0] if column not in ("measured.reserved_bytes", "measured.stage", "measured.fits")]
    stacks = {name: str(configs / "software" / f"{name}.yaml") for name in {row.get("software") for row in rows}}
    data = folder / f"{name}.csv"
    with open(data, "w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | {"software": stacks[row.get("software")]} for row in rows)
    base = folder / f"{name}.yaml"
    text = (VALIDATION / f"{name}.yaml").read_text().replace("../../configs", str(configs))
    base.write_text(re.sub(r"^software: (\S+)$", rf"software: {configs}/software/\1.yaml", text, flags=re.MULTILINE))
    results = document(program, "validate", data, "--base", base)["rows"]
    return [(row, result["error_percent"]) for row, result in zip(rows, results, strict=True)]


def check_runs(program, configs, claims):
    page = (VALIDATION / "regimes.md").read_text()
    for name in dict.fromkeys(name for name, _, _ in REGIMES):
        regimes = [(title, chosen) for of, title, chosen in REGIMES if of == name]
        with tempfile.TemporaryDirectory() as folder:
            runs = errors_of_runs(program, configs, name, lambda row: any(chosen(row) for _, chosen in regimes),
                                  pathlib.Path(folder))
        for title, chosen in regimes:
            errors = [error for row, error in runs if chosen(row)]
            sizes = sorted(abs(error) for error in errors)
            row = re.search(rf"^\| {re.escape(title)} \|(.*)\|$", page, re.MULTILINE)[1]
            count, mean, median, p90, bias = (cell.strip() for cell in row.split("|"))
            if int(count) != len(errors):
                claims.problems.append(f"{title}: found {len(errors)} runs; accepted: what the page says, {count}")
            claims.compare(f"{title}, mean", mean, statistics.mean(sizes))
            claims.compare(f"{title}, median", median, statistics.median(sizes))
            claims.compare(f"{title}, p90", p90, statistics.quantiles(sizes, n=10, method="inclusive")[-1])
            claims.compare(f"{title}, bias", bias, statistics.median(errors))


def check_bridge(program, claims):
    """Runs of Megatron-Bridge against low-precision.md: dense ones together, those with experts by name and by precision."""
    page = (VALIDATION / "low-precision.md").read_text()
    errors = {}
    for name in ("bridge", "bridge-moe"):
        rows = document(program, "validate", VALIDATION / "data" / f"{name}.csv", "--base", VALIDATION / f"{name}.yaml")["rows"]
        errors[name] = {row["id"]: row["error_percent"] for row in rows}
    claimed = {}
    number, median = re.search(r"The (\d+) runs are ([\d.]+) % off in the median", page).groups()
    claimed["dense runs"] = (number, median, list(map(abs, errors["bridge"].values())))
    sentence = r"([\d.]+) % in bf16 \((\d+) runs\), ([\d.]+) % in\s+current scaling \((\d+)\) and ([\d.]+) % in\s+MXFP8 \((\d+)\)"
    found = re.search(sentence, page).groups()
    for precision, median, number in zip(("bf16", "fp8", "mxfp8"), found[::2], found[1::2]):
        sizes = [abs(error) for name, error in errors["bridge-moe"].items() if f"-{precision}" in name]
        claimed[f"experts in {precision}"] = (number, median, sizes)
    for kind, number, median in re.findall(r"^\| `([\w-]+)` \| (\d+) \| ([+-][\d.]+) \|", page, re.MULTILINE):
        runs = [error for name, error in errors["bridge-moe"].items() if re.sub(r"^bridge-[\d.]+-", "", name) == kind]
        claimed[kind] = (number, median, runs)
    if len(errors["bridge-moe"]) != sum(int(number) for kind, (number, _, _) in claimed.items() if " " not in kind):
        claims.problems.append("low-precision.md: found other numbers of runs with experts; accepted: all rows of bridge-moe.csv")
    for title, (number, median, runs) in claimed.items():
        if int(number) != len(runs):
            claims.problems.append(f"{title}: found {len(runs)} runs; accepted: what the page says, {number}")
        claims.compare(f"{title}, median", median, statistics.median(runs))


def check_deepseek(program, claims):
    """DeepSeek-V3's own run: hours and bytes, and milliseconds by kind, against low-precision.md."""
    page = (VALIDATION / "low-precision.md").read_text()
    result = subprocess.run([sys.executable, VALIDATION / "deepseek_v3.py", program], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stderr)
    for line in result.stdout.splitlines():
        title, *found = (cell.strip() for cell in line.strip("| ").split("|"))
        claimed = re.search(rf"^\| {re.escape(title)} \|(.*)\|$", page, re.MULTILINE)[1].split("|")
        for claim, value in zip(claimed, found, strict=True):
            claims.compare(f"DeepSeek-V3, {title}", claim.strip(), float(value))


def check_summary(claims):
    """Each row of the page's own table stands in the table of all regimes."""
    page = (VALIDATION / "README.md").read_text()
    table = page[page.index("| kind of run |"):].partition("\n\n")[0].splitlines()[2:]
    regimes = (VALIDATION / "regimes.md").read_text().splitlines()
    for line in table:
        claims.checked += 1
        row = line[:line.rindex("| [")] + "|"
        if row not in regimes:
            claims.problems.append(f"README.md: found '{row}'; accepted: a row of regimes.md")
    check_readme(claims, table)


def check_readme(claims, table):
    """Each machine that README.md names has the runs and the median of a row of that table."""
    rows = {tuple(cell.strip() for cell in line.split("|")[2:5:2]) for line in table}
    readme = (ROOT / "README.md").read_text()
    told = readme[readme.index("* **Time on other machines"):].partition("\n* ")[0]
    medians = re.findall(r"([\d.]+) %\s+on\s+(\d+)", told)
    claims.checked += len(medians)
    for median, runs in medians:
        if (runs, median) not in rows:
            claims.problems.append(f"README.md: found {median} % on {runs} runs; accepted: a row of {VALIDATION}/README.md")
    if len(medians) < 7:
        claims.problems.append(f"README.md: found {len(medians)} medians of machines; accepted: 7 or more")


def check_memory(program, configs, claims):
    """The paper's runs fit into their accelerators with what Megatron-LM of 2022 allocates, and reserve what the page says."""
    stack = configs / "software" / "megatron-2022-memory.yaml"
    reserved = []
    for run in (configs / "paper" / f"{model}-{case}.yaml" for model in ("22b", "175b", "530b", "1t") for case in ("full", "present")):
        result = document(program, "simulate", run, "--set", f"software={stack}")
        if result["verdict"] != "fits":
            claims.problems.append(f"{run.name}: found {result['verdict']} with {stack.stem}; accepted: fits, as it ran")
        reserved.append(max(stage["reserved_bytes"] for stage in result["stages"]) / 2**30)
    page = (VALIDATION / "README.md").read_text()
    least, most = re.search(r"reserve ([\d.]+) to ([\d.]+) GiB on their\s+fullest stage", page).groups()
    claims.compare("reserved GiB of the paper's runs, least", least, min(reserved))
    claims.compare("reserved GiB of the paper's runs, most", most, max(reserved))


def check_rings(program, claims):
    """The ratio of the two kinds of rings, and within what the page says it is."""
    folder = ROOT / "experiments" / "rings"
    page = (folder / "README.md").read_text()
    result = subprocess.run([sys.executable, folder / "run.py", program], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(result.stderr)
    for line in result.stdout.splitlines()[2:]:
        title = " | ".join(cell.strip() for cell in line.split("|")[1:4])
        found = re.search(r"([+-][\d.]+) % \|$", line)[1]
        claimed = re.search(rf"^\| {re.escape(title)} \|.* ([+-][\d.]+) % \|$", page, re.MULTILINE)[1]
        claims.compare(f"rings, {title}", claimed, float(found))


def check_sensitivity(program, configs, claims):
    """The rows of the efficiencies that a tenth more would take above 1."""
    folder = ROOT / "experiments" / "sensitivity"
    spec = importlib.util.spec_from_file_location("sensitivity", folder / "run.py")
    sensitivity = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sensitivity)
    system = sensitivity.yaml.safe_load((configs / "systems" / "selene-a100.yaml").read_text())
    page = (folder / "README.md").read_text()
    above = {key: value for key, value in sensitivity.constants(system)
             if key.startswith("calibration.") and isinstance(value, float) and 1 / 1.1 < value < 1}
    if not above:
        claims.problems.append("sensitivity: found no efficiency near 1; accepted: a small tile's, as the page has it")
    for key, value in above.items():
        cells = re.search(rf"^\| {re.escape(key)} \|(.*)\|$", page, re.MULTILINE)[1].split("|")
        for name, claimed in zip(sensitivity.RUNS, cells, strict=True):
            run = configs / "paper" / f"{name}.yaml"
            claims.compare(f"sensitivity, {key}, {name}", claimed.strip(),
                           sensitivity.largest_change(program, run, key, value))


def main():
    program = sys.argv[1]
    configs = (pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "configs").resolve()
    claims = Claims()
    check_tables(program, configs, claims)
    check_runs(program, configs, claims)
    check_bridge(program, claims)
    check_deepseek(program, claims)
    check_summary(claims)
    check_memory(program, configs, claims)
    check_rings(program, claims)
    check_sensitivity(program, configs, claims)
    for problem in claims.problems:
        print(problem)
    if not claims.problems:
        print(f"{claims.checked} claims hold")
    return 1 if claims.problems else 0


if __name__ == "__main__":
    sys.exit(main())
