#!/usr/bin/env python3
"""The table of regimes.md and the regrets of README.md, from the results of `stagecraft validate --json`.

usage: table.py RESULTS   a folder with a document for each data set (see run.sh)
"""
import csv
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE / "megatron_ci"))
from errors import is_timed  # noqa: E402, it is in that folder
PUBLISHED = {
    "dgxc-24.11.1": "H100, 16 to 2,048, Nemotron-4 15B in bf16, dgxc-benchmarking v24.11.1",
    "dgxc-25.02": "H100, the same, v25.02",
    "dgxc-25.04.02": "H100, the same, v25.04.02, t 2",
    "simumax-b200": "B200, one node, Llama 3 70B with 12 layers, SimuMax",
    "mt-nlg": "A100, 2,240 to 3,360, MT-NLG 530B",
    "bloom-0221": "A100, 384, trials for BLOOM, 21 February 2022",
    "bloom-0225": "A100, 384, the same, 25 February",
    "bloom-0228": "A100, 384, the same, 28 February",
}
CONTEXT = (
    ("H100, 8 to 128, Llama 3.1 8B, c 2, dgxc-benchmarking", lambda row: row["model.hidden"] == "4096"),
    ("H100, 32 to 2,304, Llama 3.1 405B, t 8, c 2, dgxc-benchmarking",
     lambda row: row["model.hidden"] == "16384"),
    ("B200, one node, Llama 3 70B with 12 layers, sequences of 32k and 128k, c 4 and 8, SimuMax",
     lambda row: row["system"] == "b200-hgx"),
)
SHARDED = (
    ("A100, one node", lambda row: row["group"] == "a100 one node"),
    ("H100, one node", lambda row: row["group"] == "h100 one node"),
    ("H100, 16 to 512", lambda row: row["group"] == "h100 16 and more"),
    ("A100 and H100, all", lambda row: True),
)
TORCHTITAN = {"a100": "A100, 64, FSDP2, torchtitan without compilation", "h100": "H100, 128 and 256, t 8, FSDP2, torchtitan",
              "h100 8B": "H100, 8 to 128, Llama 3 8B, FSDP2, torchtitan's own tables", "h200": "H200, 32, t 4, FSDP2, KempnerForge"}


def runs(results, name):
    """(columns of the data file, error of the prediction in percent) of each timed run."""
    document = json.loads((results / f"{name}.json").read_text())
    with open(HERE / "data" / f"{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    if len(rows) != len(document["rows"]):
        sys.exit(f"{name}: {len(document['rows'])} results for {len(rows)} runs")
    pairs = zip(rows, document["rows"])
    timed = [(row, result) for row, result in pairs if row["measured.iteration_seconds"]]
    unpredicted = sum(result["error_percent"] is None for _, result in timed)
    if unpredicted:
        print(f"{name}: {unpredicted} timed runs could not be predicted", file=sys.stderr)
    return [(row, result["error_percent"]) for row, result in timed if result["error_percent"] is not None], document


def regrets(document, key):
    """Percent that the run predicted fastest takes longer than the best, of each group with eight runs or more."""
    groups = {}
    for result in document["rows"]:
        if result["measured_seconds"] is not None and result["predicted_seconds"] is not None:
            groups.setdefault(key(result["group"]), []).append(result)
    chosen = {group: min(rows, key=lambda row: row["predicted_seconds"]) for group, rows in groups.items() if len(rows) >= 8}
    return {group: 100 * (row["measured_seconds"] / min(other["measured_seconds"] for other in groups[group]) - 1)
            for group, row in chosen.items()}


def line(title, errors):
    if not errors:
        return
    sizes = sorted(abs(error) for error in errors)
    p90 = statistics.quantiles(sizes, n=10, method="inclusive")[-1] if len(sizes) > 1 else sizes[0]
    print(f"| {title} | {len(errors)} | {statistics.mean(sizes):.1f} | {statistics.median(sizes):.1f} | {p90:.1f} "
          f"| {statistics.median(errors):+.1f} |")


def main():
    results = pathlib.Path(sys.argv[1])
    sets = {name: runs(results, name) for name in ("nanotron", "vtrain-single-node", "vtrain-multi-node", "narayanan-2021", "published", "published-context", "megatron-ci", "llm-foundry", "torchtitan")}
    print("| regime | runs | mean % | median % | p90 % | bias % |\n|---|---|---|---|---|---|")
    rows = sets["nanotron"][0]
    line("H100, nanotron sweep, all", [error for _, error in rows])
    for title, chosen in (("campaign A, t up to 8", lambda row: row["software"] == "nanotron" and int(row["parallel.tensor"]) <= 8),
                          ("campaign A, t above 8", lambda row: row["software"] == "nanotron" and int(row["parallel.tensor"]) > 8),
                          ("campaign B", lambda row: row["software"] == "nanotron-checked")):
        line(f"H100, nanotron sweep, {title}", [error for row, error in rows if chosen(row)])
    for stack, name in (("nanotron", "H100, nanotron"), ("nanotron-checked", "H100, nanotron with checked collectives")):
        of_stack = [(row, error) for row, error in rows if row["software"] == stack]
        for tensor in (1, 2, 4, 8, 16, 32):
            for deep in (False, True):
                chosen = [error for row, error in of_stack
                          if int(row["parallel.tensor"]) == tensor and (int(row["parallel.pipeline"]) > 1) == deep]
                line(f"{name}, t {tensor}, p {'> 1' if deep else '1'}", chosen)
    for name, title in (("vtrain-single-node", "A100, one node, Megatron-DeepSpeed"),
                        ("vtrain-multi-node", "A100, 64 to 512, Megatron-DeepSpeed")):
        rows = sets[name][0]
        line(f"{title}, all", [error for _, error in rows])
        for tensor in (1, 2, 4, 8, 16):
            line(f"{title}, t {tensor}", [error for row, error in rows if int(row["parallel.tensor"]) == tensor])
    line("A100, Narayanan et al. 2021, table 1", [error for _, error in sets["narayanan-2021"][0]])
    rows = sets["published"][0]
    for group in dict.fromkeys(row["group"] for row, _ in rows):
        line(PUBLISHED.get(group, group), [error for row, error in rows if row["group"] == group])
        if group == "bloom-0228":
            line("A100, 384, trials for BLOOM, 21 to 28 February 2022",
                 [error for row, error in rows if row["group"].startswith("bloom")])
    rows = sets["published-context"][0]
    for title, chosen in CONTEXT:
        line(title, [error for row, error in rows if chosen(row)])
    line("A100, H100 and GB200, one node, Megatron-LM's own tests, mostly of h 512",
         [error for row, error in sets["megatron-ci"][0] if is_timed(row)])
    for title, chosen in SHARDED:
        line(f"{title}, FSDP1, llm-foundry", [error for row, error in sets["llm-foundry"][0] if chosen(row)])
    for group, title in TORCHTITAN.items():
        line(title, [error for row, error in sets["torchtitan"][0] if row["group"] == group])
    line("FSDP2, torchtitan and KempnerForge, all", [error for _, error in sets["torchtitan"][0]])
    summary = sets["nanotron"][1]["summary"]
    print(f"\nChoice of a plan among the sweep's runs of one model on one number of GPUs, one campaign: the plan predicted "
          f"fastest takes {summary['regret_mean_percent']:.1f} % longer than the best in the mean, "
          f"{summary['regret_max_percent']:.1f} % at most; rank correlation {summary['spearman']:.2f}.")
    document = sets["nanotron"][1]
    apart = [value for group, value in regrets(document, lambda group: group).items() if group != "1.34G-512-a"]
    both = list(regrets(document, lambda group: group.rpartition("-")[0]).values())
    print(f"Without 1.34G on 512 GPUs in campaign A, it takes {statistics.mean(apart):.1f} % longer in the mean and "
          f"{max(apart):.1f} % at most. With both campaigns together, these are {statistics.mean(both):.1f} and "
          f"{max(both):.1f} %.")


if __name__ == "__main__":
    main()
