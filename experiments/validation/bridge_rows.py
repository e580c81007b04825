#!/usr/bin/env python3
"""Prints data/bridge.csv: dense runs of Megatron-Bridge's performance summaries in 8 and 4 bits.

usage: bridge_rows.py SUMMARY   CSV of the tables of docs/performance-summary*.md, a row for a line: release, task, model,
                                system, gpus, precision, gbs, mbs, seq, fsdp, tp, pp, cp, vp, tokens_per_s_gpu

A table says layout and batch. What else a run is follows from its recipe, NVIDIA-NeMo/Megatron-Bridge at 067f987d,
src/megatron/bridge/perf_recipes/llama/SYSTEM: no recompute, no offloading, the distributed optimizer, gradients in 16 bits,
parameters in 8 or 4 bits (training/mixed_precision.py), overlap of the tensor group's exchanges. Rows whose
layout is not that of the recipe of this commit are of an earlier one, and have `earlier` in their names.
Left out, each counted on stderr: fine-tuning (sequences are packed, and their lengths are not said), LoRA, Nemotron's hybrids,
experts, and Megatron-FSDP, which also offloads.
"""
import collections
import csv
import sys

MODELS = {"LLAMA3_70B": ("llama3-70b", 80, 8192, 64, 28672), "LLAMA3.1_405B": ("llama3.1-405b", 126, 16384, 128, 53248)}
SYSTEMS = {"DGX-GB200": "gb200-nvl72", "DGX-GB300": "gb300-nvl72", "DGX-H100": "dgx-h100", "DGX-B200": "b200-hgx"}
RECIPES = {
    "BF16": "none",
    "FP8": "{recipe: current, parameters: low}",
    "MXFP8": "{recipe: mxfp8, parameters: low}",
    "NVFP4": "{recipe: nvfp4, parameters: low}",
}
# Tensor, pipeline, context, chunks per stage of the recipes.
LAYOUTS = {
    ("LLAMA3_70B", "DGX-GB200", "MXFP8"): (2, 4, 1, 5),
    ("LLAMA3_70B", "DGX-H100", "FP8"): (4, 8, 1, 5),
    ("LLAMA3.1_405B", "DGX-GB200", "FP8"): (4, 16, 1, 4),
    ("LLAMA3.1_405B", "DGX-GB200", "MXFP8"): (4, 16, 1, 8),
    ("LLAMA3.1_405B", "DGX-GB300", "FP8"): (4, 8, 1, 4),
    ("LLAMA3.1_405B", "DGX-GB300", "MXFP8"): (2, 8, 2, 4),
    ("LLAMA3.1_405B", "DGX-GB300", "NVFP4"): (4, 8, 1, 4),
}
FIXED = {
    "model.kv_heads": 8, "model.vocabulary": 128256, "model.activation": "swiglu", "model.norm": "rmsnorm",
    "model.positions": "rotary", "model.tied_embeddings": "false", "model.dropout": 0, "model.attention_dropout": 0,
    "model.biases": "false", "model.attention": "flash", "model.causal_mask": "none", "model.precision": "bf16",
    "parallel.overlap_gradients": "true", "recompute": "none", "memory.distributed_optimizer": "true",
    "memory.gradient_dtype": "bf16", "software": "megatron-core", "software.replicas.gradient_bytes": 2,
}  # fmt: skip


def left_out(row):
    if row["task"] != "Pre-Training Performance":
        return row["task"]
    if row["model"] not in MODELS:
        return row["model"]
    if row["precision"] not in RECIPES:
        return row["precision"]
    return "Megatron-FSDP" if row["fsdp"] not in ("", "0") else ""


def layers_of(row, chunks):
    """Of each virtual stage, if they are not the same: embedding and loss count as layers (405B), or as the recipe says."""
    stages = int(row["pp"]) * chunks
    if row["model"] == "LLAMA3.1_405B":
        each = 128 // stages
        return [each - 1] + [each] * (stages - 2) + [each - 1]
    if row["system"] == "DGX-H100" and stages == 40:  # "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL"
        return [2] * 35 + [3] + [2] * 3 + [1]
    return ""


def main():
    with open(sys.argv[1]) as file:
        rows = list(csv.DictReader(file))
    out = None
    omitted = collections.Counter()
    for row in rows:
        if reason := left_out(row):
            omitted[reason] += 1
            continue
        name, layers, hidden, heads, ffn = MODELS[row["model"]]
        chunks = 1 if row["vp"] == "n/a" else int(row["vp"])
        t, p, c, gpus = (int(row[key]) for key in ("tp", "pp", "cp", "gpus"))
        is_now = LAYOUTS.get((row["model"], row["system"], row["precision"])) == (t, p, c, chunks)
        parts = ["bridge", row["release"], name, row["system"][4:].lower(), row["precision"].lower()]
        values = {
            "id": "-".join(parts + ([] if is_now else ["earlier"])),
            "group": f"bridge-{row['release']}",
            "model.layers": layers, "model.hidden": hidden, "model.heads": heads, "model.ffn_hidden": ffn,
            "model.sequence": row["seq"], **FIXED, "low_precision": RECIPES[row["precision"]],
            "parallel.tensor": t, "parallel.pipeline": p, "parallel.context": c, "parallel.data": gpus // (t * p * c),
            "parallel.interleave": chunks, "schedule": "interleaved" if chunks > 1 else "1f1b",
            "parallel.sequence": "true" if t > 1 else "false", "batch.global": row["gbs"], "batch.micro": row["mbs"],
            "layout": layers_of(row, chunks), "system": SYSTEMS[row["system"]],
            "software.tensor.own_shard_first": "true",
            "measured.iteration_seconds": f"{int(row['gbs']) * int(row['seq']) / (float(row['tokens_per_s_gpu']) * gpus):.4f}",
        }  # fmt: skip
        if out is None:
            out = csv.DictWriter(sys.stdout, values, lineterminator="\n")
            out.writeheader()
        out.writerow(values)
    for reason, count in sorted(omitted.items()):
        print(f"left out: {reason}: {count}", file=sys.stderr)


if __name__ == "__main__":
    main()
