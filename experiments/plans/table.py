#!/usr/bin/env python3
"""Prints the best plans of the paper's models beside the paper's own runs.

    python3 experiments/plans/table.py PROGRAM

Plans fill the device (--margin 0); how many were simulated is counted with the default margin, and both on one core.
"""
import json
import subprocess
import sys

# model file, name, GPUs = sequences per iteration but for 22B, and the paper's run
CASES = [("gpt-22b", "22B", 8, 4, "22b-present"), ("gpt3-175b", "175B", 64, 64, "175b-present"),
         ("mtnlg-530b", "530B", 280, 280, "530b-present"), ("mtnlg-530b", "530B", 2240, 2240, "530b-present-2240"),
         ("gpt-1t", "1T", 512, 512, "1t-present")]


def document(program, *arguments):
    return json.loads(subprocess.run([program, *arguments, "--json"], check=True, stdout=subprocess.PIPE).stdout)


def layout_of(config):
    """What distinguishes a plan: the layout, the microbatch, recompute and the optimizer's shards."""
    parallel, batch = config["parallel"], config["batch"]
    text = f"t {parallel['tensor']}, p {parallel['pipeline']}"
    if parallel["interleave"] > 1:
        text += f" x {parallel['interleave']}"
    if parallel["data"] > 1:
        text += f", d {parallel['data']}"
    text += f", b {batch['micro']}"
    policies = config["recompute"].get("per_stage", [config["recompute"]])
    if any("store_microbatches" in policy for policy in policies):
        text += ", window"
    return text + (", sharded optimizer" if config["memory"]["distributed_optimizer"] else "")


def row(program, model, name, gpus, batch, paper):
    search = ("plan", f"configs/models/{model}.yaml", "--system", "selene-a100", "--gpus", str(gpus),
              "--global-batch", str(batch), "--jobs", "1")
    full = document(program, *search, "--margin", "0")
    usual = document(program, *search)
    seconds = full["best"][0]["iteration_seconds"]
    published = document(program, "simulate", f"configs/paper/{paper}.yaml")["iteration_seconds"]
    return (f"| {name} | {gpus:,} | {full['considered']:,} | {usual['simulated']} | {full['seconds']:.1f} | "
            f"{seconds:.3f} s: {layout_of(full['best'][0]['config'])} | {published:.3f} s | "
            f"{100 * (1 - seconds / published):.1f} % |")


def main():
    print("| | GPUs | plans considered | simulated | s, one core | found | the paper's present work | faster |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        print(row(sys.argv[1], *case))


if __name__ == "__main__":
    main()
