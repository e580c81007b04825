#!/usr/bin/env python3
"""Prints data/bridge.csv, or data/bridge-moe.csv: runs of Megatron-Bridge's performance summaries.

usage: bridge_rows.py SUMMARY dense|experts   SUMMARY is a CSV of the tables of docs/performance-summary*.md, a row for a line:
                                              release, task, model, system, gpus, precision, gbs, mbs, seq, fsdp, tp, pp, cp,
                                              vp, ep, tokens_per_s_gpu

A table says layout and batch. What else a run is follows from its recipe in NVIDIA-NeMo/Megatron-Bridge. Rows of a recipe that
is not the one of 067f987d, src/megatron/bridge/perf_recipes, have `earlier` in their names.

dense: Llama in 8 and 4 bits, as llama/SYSTEM says: no recompute, no offloading, the distributed optimizer, gradients in 16 bits,
parameters in 8 or 4 bits (training/mixed_precision.py), overlap of the tensor group's exchanges. Left out, each counted on stderr:
fine-tuning (sequences are packed, and their lengths are not said), LoRA, Nemotron's hybrids, experts, and Megatron-FSDP,
which also offloads.

experts: the recipe is that of the release's tag (26.02 to 26.06.01: v0.3.0, v0.3.1, v0.4.0, v0.4.1, v0.5.0, v0.5.1;
scripts/performance/configs), all of which have the layouts of these tables, but for one row of 26.02.01, which has that of
v0.3.0. 26.08 has that of 067f987d. Loads are forced to be even. Left out are the other models, and a row whose recipe splits
experts over other ranks than its table says.
"""
import collections
import csv
import sys

MODELS = {"LLAMA3_70B": ("llama3-70b", 80, 8192, 64, 28672), "LLAMA3.1_405B": ("llama3.1-405b", 126, 16384, 128, 53248)}
SYSTEMS = {"DGX-GB200": "gb200-nvl72", "DGX-GB300": "gb300-nvl72", "DGX-H100": "dgx-h100", "DGX-B200": "b200-hgx",
           "DGX-B300": "b300-hgx"}
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

# Kimi K2: config.json of moonshotai/Kimi-K2-Instruct.
KIMI = (
    "{base: deepseek-v3, heads: 64, kv_heads: 64, vocabulary: 163840, experts: {count: 384, first_dense: 1, "
    "router: {scaling: 2.827, groups: 1, groups_per_token: 1}}}"
)
# The model, its loss of the router (models/*/*_bridge.py), modules of multi-token prediction, type of Adam's moments, and what
# the name in the table is in ours.
EXPERT_MODELS = {
    "DeepSeekV3": ("dsv3", "deepseek-v3", "sequence_auxiliary", 1, "bf16"),
    "GPT OSS 120B": ("gpt-oss-120b", "gpt-oss-120b", "none", 0, ""),
    "Kimi_K2": ("kimi-k2", KIMI, "sequence_auxiliary", 0, ""),
    "Qwen3_235B_a22B": ("qwen3-235b", "qwen3-235b-a22b", "auxiliary", 0, ""),
    "Qwen3_30B_a3B": ("qwen3-30b", "qwen3-30b-a3b", "auxiliary", 0, ""),
}
# Recipes: from which release on, how tokens travel (HybridEP is predicted as DeepEP, with the 32 multiprocessors that
# scripts/performance/utils/overrides.py gives it), whether exchanges run beside another microbatch, what CUDA graphs have in
# them, modules that are computed again, and whether 067f987d has the same, layout included.
EXPERT_RECIPES = {
    ("DeepSeekV3", "DGX-GB200", "MXFP8"): [
        ("26.02", "hybridep", False, "parts", ["mla_up_projection"], False),
        ("26.06", "hybridep", True, "passes", ["mla_up_projection"], True),
    ],
    ("DeepSeekV3", "DGX-GB300", "MXFP8"): [("26.06", "hybridep", True, "passes", [], True)],
    ("DeepSeekV3", "DGX-B200", "MXFP8"): [("26.04", "hybridep", False, "", ["mla_up_projection"], False)],
    ("DeepSeekV3", "DGX-B300", "MXFP8"): [("26.02.01", "hybridep", False, "", ["mla_up_projection"], False)],
    ("GPT OSS 120B", "DGX-GB300", "BF16"): [("26.02.01", "alltoall", False, "parts", [], True)],
    ("GPT OSS 120B", "DGX-GB300", "MXFP8"): [("26.06.01", "hybridep", True, "passes", [], True)],
    ("GPT OSS 120B", "DGX-GB200", "BF16"): [
        ("26.02", "alltoall", False, "", ["layernorm", "moe_act"], False),
        ("26.04", "hybridep", True, "", ["layernorm", "moe_act"], False),
    ],
    ("GPT OSS 120B", "DGX-GB200", "MXFP8"): [("26.06.01", "hybridep", True, "passes", [], True)],
    ("GPT OSS 120B", "DGX-B200", "BF16"): [("26.04", "hybridep", False, "", ["layernorm", "moe_act"], False)],
    ("GPT OSS 120B", "DGX-B300", "BF16"): [("26.04", "hybridep", False, "parts", [], True)],
    ("GPT OSS 120B", "DGX-B300", "MXFP8"): [("26.06", "hybridep", False, "parts", [], True)],
    ("GPT OSS 120B", "DGX-H100", "BF16"): [("26.02", "alltoall", False, "", ["layernorm", "moe_act"], True)],
    ("Kimi_K2", "DGX-GB300", "MXFP8"): [("26.02.01", "hybridep", False, "", ["mla_up_projection"], True)],
    ("Qwen3_235B_a22B", "DGX-GB300", "MXFP8"): [
        ("26.04.01", "hybridep", False, "parts", [], False),
        ("26.06", "hybridep", True, "passes", [], True),
    ],
    ("Qwen3_235B_a22B", "DGX-GB200", "MXFP8"): [
        ("26.02.01", "hybridep", False, "parts", [], False),
        ("26.06.01", "hybridep", True, "passes", [], True),
    ],
    ("Qwen3_235B_a22B", "DGX-B200", "MXFP8"): [("26.02", "alltoall", False, "", [], False)],
    ("Qwen3_235B_a22B", "DGX-B300", "MXFP8"): [
        ("26.02", "alltoall", True, "", [], False),
        ("26.04", "alltoall", False, "", [], False),
    ],
    ("Qwen3_235B_a22B", "DGX-H100", "FP8"): [("26.02", "alltoall", True, "", [], True)],
    ("Qwen3_30B_a3B", "DGX-GB300", "MXFP8"): [
        ("26.02", "hybridep", False, "parts", [], False),
        ("26.06", "hybridep", True, "passes", [], True),
    ],
    ("Qwen3_30B_a3B", "DGX-GB200", "MXFP8"): [
        ("26.02", "hybridep", False, "parts", [], False),
        ("26.06", "hybridep", True, "passes", [], True),
    ],
    ("Qwen3_30B_a3B", "DGX-B200", "MXFP8"): [
        ("26.02", "alltoall", False, "parts", [], False),
        ("26.02.01", "hybridep", False, "parts", [], False),
    ],
    ("Qwen3_30B_a3B", "DGX-B300", "MXFP8"): [
        ("26.02", "hybridep", False, "parts", [], False),
        ("26.06", "hybridep", True, "passes", [], True),
    ],
    ("Qwen3_30B_a3B", "DGX-H100", "FP8"): [("26.02", "deepep", True, "", [], False)],
}
# What recipes with whole passes in graphs have in 8 bits besides linear layers and experts.
LOW_PARTS = {
    ("DeepSeekV3", "DGX-GB200"): ", head: true",
    ("DeepSeekV3", "DGX-GB300"): ", attention: true, head: true",
    ("GPT OSS 120B", "DGX-GB200"): ", attention: true, head: true",
    ("GPT OSS 120B", "DGX-GB300"): ", attention: true, head: true",
    ("Qwen3_235B_a22B", "DGX-GB200"): ", attention: true",
    ("Qwen3_235B_a22B", "DGX-GB300"): ", attention: true",
    ("Qwen3_30B_a3B", "DGX-GB200"): ", attention: true",
    ("Qwen3_30B_a3B", "DGX-GB300"): ", attention: true",
    ("Qwen3_30B_a3B", "DGX-B300"): ", attention: true",
}
# What the host spends where whole passes are one graph.
HOST_TIMES = ("kernel", "gemm", "call", "collective", "pass", "message")
# The source says that these runs are slower by a fault (cudnn-frontend, issue 256).
FAULTY = {("26.06.01", "GPT OSS 120B")}
# In v0.3.1 this run has 64 expert ranks, in its table 8.
OTHER_LAYOUTS = {("26.02.01", "GPT OSS 120B", "DGX-B300")}


def left_out(row, models):
    if row["task"] != "Pre-Training Performance":
        return row["task"]
    if row["model"] not in models:
        return row["model"]
    if row["system"] not in SYSTEMS:
        return f"{row['system']}: {row['model']}"
    if row["precision"] not in RECIPES:
        return row["precision"]
    if (row["release"], row["model"], row["system"]) in OTHER_LAYOUTS:
        return f"{row['release']}, {row['system']}: {row['model']}"
    return "Megatron-FSDP" if row["fsdp"] not in ("", "0") else ""


def chunks_of(row):
    return 1 if row["vp"] == "n/a" else int(row["vp"])


def name_of(row, model, is_now):
    parts = ["bridge", row["release"], model, row["system"][4:].lower(), row["precision"].lower()]
    parts += [] if is_now else ["earlier"]
    return "-".join(parts + (["faulty"] if (row["release"], row["model"]) in FAULTY else []))


def iteration_seconds(row):
    tokens = int(row["gbs"]) * int(row["seq"])
    return f"{tokens / (float(row['tokens_per_s_gpu']) * int(row['gpus'])):.4f}"


def with_ends(layers, stages):
    """Layers of each virtual stage if embedding and loss count as a layer each."""
    each = (layers + 2) // stages
    return [each - 1] + [each] * (stages - 2) + [each - 1]


def layers_of(row, chunks):
    """Of each virtual stage, if they are not the same."""
    stages = int(row["pp"]) * chunks
    if row["model"] == "LLAMA3.1_405B":
        return with_ends(126, stages)
    if row["model"] == "Qwen3_235B_a22B":
        return with_ends(94, stages)
    if row["model"] in ("DeepSeekV3", "Kimi_K2"):  # on 16 in all recipes; multi-token prediction is with the loss
        return [4] * 15 + [1]
    if row["system"] == "DGX-H100" and stages == 40:  # "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL"
        return [2] * 35 + [3] + [2] * 3 + [1]
    return ""


def layout_values(row):
    chunks = chunks_of(row)
    t, p, c, gpus = (int(row[key]) for key in ("tp", "pp", "cp", "gpus"))
    return {
        "parallel.tensor": t, "parallel.pipeline": p, "parallel.context": c, "parallel.data": gpus // (t * p * c),
        "parallel.interleave": chunks, "schedule": "interleaved" if chunks > 1 else "1f1b",
        "parallel.sequence": "true" if t > 1 else "false", "batch.global": row["gbs"], "batch.micro": row["mbs"],
        "layout": layers_of(row, chunks), "system": SYSTEMS[row["system"]],
    }  # fmt: skip


def dense_values(row):
    name, layers, hidden, heads, ffn = MODELS[row["model"]]
    layout = (int(row["tp"]), int(row["pp"]), int(row["cp"]), chunks_of(row))
    is_now = LAYOUTS.get((row["model"], row["system"], row["precision"])) == layout
    return {
        "id": name_of(row, name, is_now),
        "group": f"bridge-{row['release']}",
        "model.layers": layers, "model.hidden": hidden, "model.heads": heads, "model.ffn_hidden": ffn,
        "model.sequence": row["seq"], **FIXED, "low_precision": RECIPES[row["precision"]], **layout_values(row),
        "software.tensor.own_shard_first": "true", "measured.iteration_seconds": iteration_seconds(row),
    }  # fmt: skip


def expert_values(row):
    name, model, loss, predicted_tokens, moments = EXPERT_MODELS[row["model"]]
    recipes = EXPERT_RECIPES[row["model"], row["system"], row["precision"]]
    _, dispatch, overlaps, graphs, modules, is_now = [recipe for recipe in recipes if recipe[0] <= row["release"]][-1]
    low_precision = RECIPES[row["precision"]]
    # Muon has no distributed optimizer's shards to quantise.
    low_precision = low_precision.replace("parameters: low", "parameters: high") if row["model"] == "Kimi_K2" else low_precision
    parts = LOW_PARTS[row["model"], row["system"]] if graphs == "passes" else ""
    low_precision = low_precision.replace("}", parts + "}")
    # An expert group lies within a rack: of its 72 accelerators, runs on several racks have 64.
    racks = row["system"].startswith("DGX-GB") and int(row["gpus"]) > 72
    return {
        "id": name_of(row, name, is_now),
        "group": f"bridge-{row['release']}",
        "model": model, "model.sequence": row["seq"], "model.experts.router.loss": loss,
        "model.predicted_tokens": predicted_tokens, "low_precision": low_precision, **layout_values(row),
        "parallel.expert": row["ep"], "parallel.expert_overlap": "true" if overlaps else "false",
        "recompute": f"{{granularity: selective, modules: [{', '.join(modules)}]}}" if modules else "none",
        # 384 experts do not divide the choices of balanced routing.
        "routing": "{factor: 1}" if row["model"] == "Kimi_K2" else "balanced",
        "dispatch": dispatch.replace("hybridep", "deepep"),
        "parallel.dispatch_multiprocessors": 32 if dispatch == "hybridep" else "",
        "memory.moments_dtype": moments, "system.node.accelerators": 64 if racks else "",
        # training/comm_overlap.py
        "schedule": "{kind: interleaved, p2p: overlapped}" if chunks_of(row) > 1 else "1f1b",
        **{f"software.host.{key}": "0 s" if graphs == "passes" else "" for key in HOST_TIMES},
        "measured.iteration_seconds": iteration_seconds(row),
    }  # fmt: skip


def main():
    models, values_of = {"dense": (MODELS, dense_values), "experts": (EXPERT_MODELS, expert_values)}[sys.argv[2]]
    with open(sys.argv[1]) as file:
        rows = list(csv.DictReader(file))
    out = None
    omitted = collections.Counter()
    for row in rows:
        if reason := left_out(row, models):
            omitted[reason] += 1
            continue
        values = values_of(row)
        if out is None:
            out = csv.DictWriter(sys.stdout, values, lineterminator="\n")
            out.writeheader()
        out.writerow(values)
    for reason, count in sorted(omitted.items()):
        print(f"left out: {reason}: {count}", file=sys.stderr)


if __name__ == "__main__":
    main()
