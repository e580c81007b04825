#!/usr/bin/env python3
"""Makes data files of published runs with sharded units: ../data/llm-foundry.csv, torchtitan.csv, torchtitan-fp8.csv
and fms-fsdp1.csv.

usage: make.py PARALLEL.yaml FSDP.csv FMS.csv TORCHTITAN
  PARALLEL.yaml  published end-to-end runs, one per list entry: model, parallelism, hardware, measured
  FSDP.csv       published FSDP2 runs, one per row, with columns layout, micro_batch, global_batch, tokens_per_s_gpu
  FMS.csv        the benchmark table of foundation-model-stack/fms-acceleration: bytes of rank 0
  TORCHTITAN     a checkout of pytorch/torchtitan, whose tables of an 8B model in bf16 are read

The keys that the rows of a file share are in ../NAME.yaml, which is written by hand.
"""
import csv
import pathlib
import re
import sys

import yaml

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
# benchmarks/llama3_h100_202412_torchtitan.md: HBM2e at 2.4 TB/s, a power limit of 500 W, and a peak "between SXM and NVL", which
# has half of 1,671 TFLOP/s by its data sheet; the middle of both.
H100_OF_TORCHTITAN = {"system": "dgx-h100", "system.accelerator.memory": "94 GiB",
                      "system.accelerator.bandwidth": "2.4 TB/s",
                      "system.accelerator.peak": "{bf16: 912.5 TFLOP/s, fp32: 67 TFLOP/s}"}


# torch.utils.checkpoint of torchtitan and llm-foundry is not reentrant. Op-level SAC keeps every second product of a layer:
# it computes wk, wo and w3 again, which the mlp's first two products stand for, and everything between products.
RECOMPUTE = {
    None: "none",
    "full": "{granularity: full, early_stop: true}",
    "selective (op-level SAC)": "{granularity: selective, modules: [mlp, layernorm], early_stop: true}",
}


def recompute(parallel, layers):
    text = parallel["recompute"]
    if text == "selective every 2nd layer":
        return f"{{granularity: full, method: block, layers: {layers // 2}, early_stop: true}}"
    return RECOMPUTE[text]


ROTARY = {"model.positions": "rotary", "model.norm": "rmsnorm", "model.activation": "swiglu", "model.biases": False}
MODELS_OF_FMS = {
    "mistralai/Mistral-7B-v0.1": {
        "model.layers": 32, "model.hidden": 4096, "model.heads": 32, "model.kv_heads": 8, "model.ffn_hidden": 14336,
        "model.sequence": 4096, "model.vocabulary": 32000, "model.tied_embeddings": False, **ROTARY},
    "meta-llama/Meta-Llama-3-8B": {
        "model.layers": 32, "model.hidden": 4096, "model.heads": 32, "model.kv_heads": 8, "model.ffn_hidden": 14336,
        "model.sequence": 4096, "model.vocabulary": 128256, "model.tied_embeddings": False, **ROTARY},
    "ibm/PowerLM-3b": {
        "model.layers": 40, "model.hidden": 2304, "model.heads": 36, "model.kv_heads": 36, "model.ffn_hidden": 9216,
        "model.sequence": 4096, "model.vocabulary": 49152, "model.tied_embeddings": True, **ROTARY},
    "bigcode/gpt_bigcode-santacoder": {
        "model.layers": 24, "model.hidden": 2048, "model.heads": 16, "model.kv_heads": 1, "model.ffn_hidden": 8192,
        "model.sequence": 2048, "model.vocabulary": 49280, "model.tied_embeddings": True, "model.positions": "learned",
        "model.norm": "layernorm", "model.activation": "gelu", "model.biases": True},
}


def is_bf16(run):
    return "Float8" not in run["notes"] and ("BF16" in run["notes"] or run["id"].endswith("-bf16"))


def cell(value):
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def write(name, rows):
    keys = list(dict.fromkeys(key for row in rows for key in row))
    with open(DATA / f"{name}.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(keys)
        writer.writerows([cell(row.get(key)) for key in keys] for row in rows)
    print(f"{name}: {len(rows)} rows", file=sys.stderr)


def seconds(batch, sequence, tokens_per_second):
    return float(f"{batch * sequence / tokens_per_second:.6g}")


def llm_foundry(run):
    model, parallel = run["model"], run["parallelism"]
    accelerator = "h100" if "H100" in run["hardware"] else "a100"
    ranks = parallel["d"]
    where = "one node" if ranks == 8 else "16 and more"
    # Composer calls no no_sync() of FullyShardedDataParallel: every microbatch reduces.
    return {"id": run["id"].removeprefix("llmf-"), "group": f"{accelerator} {where}",
            "model.layers": model["layers"], "model.hidden": model["hidden"], "model.heads": model["heads"],
            "model.sequence": model["seq"], "parallel.data": ranks,
            "batch.micro": parallel["micro_batch"],
            "batch.global": parallel["micro_batch"] * parallel["num_microbatches"] * ranks,
            "recompute": recompute(parallel, model["layers"]),
            "sharding.reshard_after_forward": "auto" if parallel["zero"] == 3 else "false",
            "system": {"a100": "hgx-a100-80", "h100": "dgx-h100"}[accelerator],
            "measured.iteration_seconds":
                seconds(parallel["global_batch"], model["seq"], run["measured"]["tokens_per_s"])}


def torchtitan(run):
    model, parallel = run["model"], run["parallelism"]
    is_h100 = "H100" in run["hardware"]
    row = {"id": run["id"].removeprefix("torchtitan-"), "group": "h100" if is_h100 else "a100",
           "model.layers": model["layers"], "model.hidden": model["hidden"], "model.heads": model["heads"],
           "model.kv_heads": model["kv_heads"], "model.ffn_hidden": model["ffn"], "model.sequence": model["seq"],
           "model.vocabulary": model["vocab"], "parallel.tensor": parallel["t"], "parallel.data": parallel["d"],
           "parallel.sequence": parallel["t"] > 1, "batch.micro": parallel["micro_batch"],
           "batch.global": parallel["global_batch"], "recompute": recompute(parallel, model["layers"]),
           "system": "hgx-a100-80", "software": "torchtitan" if is_h100 else "torchtitan-eager"}
    if is_h100:
        row |= H100_OF_TORCHTITAN
    if run["id"].endswith("-asyncTP"):
        row["software.tensor.own_shard_first"] = True
    gpus = parallel["t"] * parallel["d"]
    rate = run["measured"]["tokens_per_s_per_gpu"] * gpus
    return row | {"measured.iteration_seconds": seconds(parallel["global_batch"], model["seq"], rate)}


# What torchtitan prints as memory is max_reserved_gib (components/metrics.py). Its loss of 2024 was not compiled, as that led to
# CUDA's errors (train.py): beside a copy of the logits in fp32 there are the result of log_softmax, which its backward reads, and
# of that backward both gradients.
LOSS_OF_2024 = "{exponentials: 1, cross_entropy_backward: 2}"
# Op-level SAC keeps, in units of h elements per token, a layer's input 1, wq 1, wv 0.25, what attention gives 1 and w1 3.5; the
# recompute that stands for it the input, rotated queries and keys 1.25, values with the rest of their buffer 1.5, what attention
# gives and the MLP's input 1: 0.93 less, with the sums of attention in both.
KEPT_BY_OP_LEVEL = "{flash_attention: 0.93}"
PEAK_OF_8_BITS = "{bf16: 912.5 TFLOP/s, fp32: 67 TFLOP/s, fp8: 1825 TFLOP/s}"
FLOAT8 = {"tensorwise": {"low_precision": "{recipe: current, implementation: torchao}", "sharding.parameter_dtype": "low"},
          "rowwise": {"low_precision": "{recipe: rowwise, implementation: torchao}"}}


def float8(run):
    """A run of 2024, whose scales are of tensors; all but pipelines."""
    return torchtitan(run) | {"group": "h100 float8", **FLOAT8["tensorwise"], "system.accelerator.peak": PEAK_OF_8_BITS,
                              "software.memory.temporary": LOSS_OF_2024,
                              "software.memory.kept": KEPT_BY_OP_LEVEL if "SAC" in run["parallelism"]["recompute"] else "",
                              "measured.reserved_bytes": round(run["measured"]["peak_memory_gib"] * 2**30)}


def is_float8(run):
    return "Float8" in run["notes"] and run["parallelism"]["p"] == 1 and run["parallelism"]["cp"] == 1


def float8_of_2025(run, runs):
    """A run of the table of asynchronous tensor parallelism, whose runs in bf16 say all but the rate. That weights with one scale
    are gathered in 8 bits is assumed, as torchtitan's page on float8 advises."""
    recipe, end = re.search(r"-(tensorwise|rowwise)-(asynctp|tp)$", run["id"]).groups()
    high = "torchtitan-70B-bf16-fsdp32-tp8" + ("-asyncTP" if end == "asynctp" else "")
    row = torchtitan(next(one for one in runs if one["id"] == high))
    rate = float(run["tokens_per_s_gpu"]) * int(run["gpus"])
    return row | {"id": row["id"].replace("bf16", recipe), "group": "h100 float8", **FLOAT8[recipe],
                  "system.accelerator.peak": PEAK_OF_8_BITS,
                  "measured.iteration_seconds": seconds(int(run["global_batch"]), int(run["seq"]), rate)}


OP_LEVEL = "selective (op-level SAC)"
LLAMA_8B = {"model.layers": 32, "model.hidden": 4096, "model.heads": 32, "model.kv_heads": 8, "model.ffn_hidden": 14336,
            "model.sequence": 8192, "model.vocabulary": 128256}


def of_tables(folder):
    """The six rows in bf16 of torchtitan's own tables of Llama 3 8B on H100. Their rates are per GPU."""
    def row(name, software, tensor, shards, micro, rate, **keys):
        batch = micro * shards
        return {"id": name, "group": "h100 8B", **LLAMA_8B, "parallel.tensor": tensor, "parallel.data": shards,
                "parallel.sequence": tensor > 1, "batch.micro": micro, "batch.global": batch,
                "recompute": RECOMPUTE[OP_LEVEL], "software": software, **H100_OF_TORCHTITAN, **keys,
                "measured.iteration_seconds": seconds(batch, LLAMA_8B["model.sequence"], rate * tensor * shards)}

    text = (pathlib.Path(folder) / "benchmarks/llama3_h100_202412_torchtitan.md").read_text()
    tables = re.findall(r"Llama 3.1 8B model. (\d+) GPUs. Local batch size (\d+), global.*?"
                        r"\| FSDP \| ([\d,]+) .*?\| FSDP \+ torch.compile \| ([\d,]+) ", text, re.DOTALL)
    rows = []
    for gpus, micro, *rates in tables:
        for stack, rate in zip(("torchtitan-eager", "torchtitan"), rates):
            rows.append(row(f"8B-{gpus}-{stack}", stack, 1, int(gpus), int(micro), int(rate.replace(",", ""))))
    text = (pathlib.Path(folder) / "benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md").read_text()
    gpus, shards, tensor, micro, *rates = re.search(
        r"8b on (\d+) H100s with FSDP=(\d+), TP=(\d+), .*?batch size (\d+)\n.*?"
        r"\| None \(bfloat16\) *\| ([\d.]+) *\| ([\d.]+) ", text, re.DOTALL).groups()
    for ending, rate, keys in (("", rates[0], {}), ("-asyncTP", rates[1], {"software.tensor.own_shard_first": True})):
        rows.append(row(f"8B-{gpus}-tp{tensor}{ending}", "torchtitan", int(tensor), int(shards), int(micro), float(rate), **keys))
    return rows


def kempner(run):
    layers, hidden, heads, kv_heads, ffn = map(int, re.findall(r"\d+", run["model"])[1:6])
    tensor, shards = map(int, re.findall(r"\d+", run["layout"]))
    micro, sequence = int(run["micro_batch"]), int(run["seq"])
    accumulated = int(re.search(r"grad accum (\d+)", run["notes"])[1])
    batch = micro * shards * accumulated
    printed = float(re.search(r"memory ([\d.]+) GB", run["notes"])[1])  # of 2^30 bytes: kempnerforge/metrics/memory.py
    rate = float(run["tokens_per_s_gpu"]) * int(run["gpus"])
    return {"id": run["id"], "group": "h200", "model.layers": layers, "model.hidden": hidden, "model.heads": heads,
            "model.kv_heads": kv_heads, "model.ffn_hidden": ffn, "model.sequence": sequence, "model.vocabulary": 128256,
            "parallel.tensor": tensor, "parallel.data": shards, "parallel.sequence": True, "batch.micro": micro,
            "batch.global": batch, "recompute": RECOMPUTE[run["recompute"]], "system": "h200", "system.node.accelerators": 4,
            "software": "torchtitan",
            "measured.iteration_seconds": seconds(batch, sequence, rate),
            "measured.allocated_bytes": round(printed * 2**30)}


# What Hugging Face's loss holds beside one copy of the logits in fp32, in units of that: eager a shifted copy and the result
# of log_softmax, with fms-acceleration's fast loss only the copy. GPTBigCode keeps all three in 16 bits. Liger's loss makes no
# logits, which cannot be said.
LOSS_OF_FMS = {"none": 2, "foak-fast-kernels": 1}
LOSS_OF_GPTBIGCODE = {"none": 0.5}


def fms(row, number):
    gpus, batch = int(row["num_gpus"]), int(row["per_device_batch"])
    name = row["model"] or "mistralai/Mistral-7B-v0.1"
    is_mixed = row["precision"].startswith("bf16-mixed") and gpus > 1  # one process is not wrapped: bf16 as loaded
    short = name.split("/")[-1].lower()
    kernels = row["framework_config"].split(",")[0]
    losses = LOSS_OF_GPTBIGCODE if "bigcode" in name else LOSS_OF_FMS
    held = losses.get(kernels)
    return {"id": f"{short}-g{gpus}-b{batch}-{kernels}-{number}", "group": f"{short}",
            **MODELS_OF_FMS[name], "parallel.data": gpus, "batch.micro": batch, "batch.global": batch * gpus,
            "sharding.stored_dtype": "fp32" if is_mixed else "bf16",
            "software.memory.freed_gradients": gpus == 1,
            "software.memory.held": f"{{exponentials: {held}}}" if held else "",
            "measured.resident_bytes": row["alloc_after_load_bytes"], "measured.allocated_bytes": row["peak_alloc_bytes"]}


def is_full_run(row):
    return row["source"].startswith("refs/") and not row["peft"] and row["peak_alloc_bytes"]


def main():
    parallel, fsdp, fms_table, titan = sys.argv[1:]
    with open(parallel) as file:
        runs = [run for run in yaml.safe_load(file) if isinstance(run, dict)]
    with open(fsdp, newline="") as file:
        others = list(csv.DictReader(file))
    with open(fms_table, newline="") as file:
        full = [row for row in csv.DictReader(file) if is_full_run(row)]
    write("llm-foundry", [llm_foundry(run) for run in runs if run["id"].startswith("llmf-")])
    write("torchtitan", [torchtitan(run) for run in runs if run["id"].startswith("torchtitan-") and is_bf16(run)]
          + [kempner(run) for run in others if run["id"].startswith("kempner-70B")] + of_tables(titan))
    write("torchtitan-fp8", [float8(run) for run in runs if run["id"].startswith("torchtitan-") and is_float8(run)]
          + [float8_of_2025(run, runs) for run in others if re.search("^tt-.*(tensorwise|rowwise)", run["id"])])
    write("fms-fsdp1", [fms(row, number) for number, row in enumerate(full)])


if __name__ == "__main__":
    main()
