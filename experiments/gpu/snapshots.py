"""Trains a small Llama with PyTorch on a GPU and records what its caching allocator did, from the first tensor on:
NAME.pickle.gz, a memory snapshot with all events, and NAME.json, what the allocator says of itself at the end.
`stagecraft allocator NAME.pickle.gz` replays the one and should say the other.

usage: snapshots.py NAME FOLDER     with a NAME of CASES; PYTORCH_CUDA_ALLOC_CONF is set from the case
"""

import gzip
import json
import os
import pathlib
import pickle
import sys

# Settings of the allocator, sequences and their length of each step, whether layers are recomputed, whether the
# allocator may take but a little more than what "uneven", which comes first, had allocated at its peak, and the ranks
# over which FSDP2 shards the layers (0: it does not). This process is one of them, and collectives do nothing: which
# buffers are allocated on which stream does not depend on that.
LENGTHS = [(2, 2048), (1, 3584), (3, 1408), (2, 1024), (1, 640), (4, 896), (2, 1920), (1, 2816), (3, 512), (2, 2432)]
CASES = {
    "steady": ("", [(2, 4096)] * 4, False, False, 0),
    "recomputed": ("", [(4, 4096)] * 4, True, False, 0),
    "uneven": ("", LENGTHS, False, False, 0),
    "uneven_tight": ("", LENGTHS, False, True, 0),
    "uneven_expandable": ("expandable_segments:True", LENGTHS, False, False, 0),
    "uneven_unsplit": ("max_split_size_mb:64", LENGTHS, False, False, 0),
    "uneven_rounded": ("roundup_power2_divisions:4", LENGTHS, False, False, 0),
    "uneven_collected": ("garbage_collection_threshold:0.6", LENGTHS, False, True, 0),
    "sharded": ("", [(2, 4096)] * 4, False, False, 8),
    "sharded_recomputed": ("", LENGTHS, True, False, 8),
}
A_LITTLE = 1.04
MODEL = dict(hidden_size=2048, intermediate_size=5632, num_hidden_layers=12, num_attention_heads=16, num_key_value_heads=4,
             vocab_size=32000, max_position_embeddings=4096, tie_word_embeddings=False)


def shard(model, ranks):
    """Each layer is a unit of fp32 shards, which gathers in bf16 and reduces in fp32; the rest is the root's."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    how = {"mesh": init_device_mesh("cuda", (ranks,)),
           "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)}
    for layer in model.model.layers:
        fully_shard(layer, **how)
    fully_shard(model, **how)


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    settings, steps, recomputes, is_tight, ranks = CASES[name]
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = settings
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    _, total = torch.cuda.mem_get_info()
    share = 1.0
    if is_tight:
        needed = json.loads((folder / "uneven.json").read_text())["stats"]["allocated_bytes.all.peak"]
        share = A_LITTLE * needed / total
        torch.cuda.set_per_process_memory_fraction(share)
    torch.cuda.memory._record_memory_history(enabled="all", context=None)
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = LlamaForCausalLM(LlamaConfig(**MODEL, attn_implementation="sdpa"))
    if recomputes:
        model.gradient_checkpointing_enable()
    shard(model, ranks) if ranks else model.to(torch.bfloat16)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    died = False
    try:
        for batch, length in steps:
            tokens = torch.randint(0, MODEL["vocab_size"], (batch, length), device="cuda")
            loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            del loss, tokens
    except torch.OutOfMemoryError:
        died = True
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    with gzip.open(folder / f"{name}.pickle.gz", "wb", compresslevel=6) as file:
        pickle.dump(torch.cuda.memory._snapshot(), file)
    (folder / f"{name}.json").write_text(json.dumps({
        "ranks": ranks, "torch": torch.__version__, "gpu": torch.cuda.get_device_name(), "settings": settings, "steps": steps,
        "recompute": recomputes, "capacity": int(share * total), "total": total, "died": died,
        "stats": {key: value for key, value in stats.items() if isinstance(value, (int, float))}}, indent=1))


main()
