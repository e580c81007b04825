"""What the twins are in run files of stagecraft: one layer, one rank and one microbatch.

Sizes are small, and no two dimensions are equal, so that a shape says what it is of.
"""

import torch

SEQUENCE, MICRO, HIDDEN, VOCABULARY = 24, 2, 64, 128
WIDE_VOCABULARY = 1024  # both passes then have their peak at the loss, whatever the CPU's functions hold in the layer
SIZES = {"layers": 1, "hidden": HIDDEN, "heads": 4, "sequence": SEQUENCE, "vocabulary": VOCABULARY, "ffn_hidden": 160, "precision": "bf16"}
LLAMA = SIZES | {
    "kv_heads": 2, "activation": "swiglu", "norm": "rmsnorm", "positions": "rotary", "biases": False, "dropout": 0,
    "tied_embeddings": False, "attention": "flash", "causal_mask": "none"}  # fmt: skip
ROUTED = {"count": 8, "per_token": 2, "ffn_hidden": 48}


def run_file(model, recompute):
    """The run that stagecraft predicts, of a model and under the name of a recompute policy."""
    named = recompute if recompute in ("none", "selective", "full") else {"granularity": "selective", "modules": [recompute]}
    return {"model": model, "system": "selene-a100", "batch": {"global": MICRO, "micro": MICRO}, "recompute": named}


def microbatch():
    """Tokens, and what follows each of them."""
    tokens = torch.randint(VOCABULARY, (MICRO, SEQUENCE + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
