"""The twins made of Hugging Face's own classes, each beside the run file of the same model.

Attention is the class's own ("eager") where the run file says unfused, PyTorch's fused one ("sdpa") where it says flash;
GPT-OSS has only the former, and a run file has sinks only with the latter. Experts compute by grouped products of rows
that are sorted by expert ("grouped_mm", the default).
"""

import re

import torch
import transformers
from run_files import LLAMA, ROUTED, SEQUENCE, SIZES, VOCABULARY, microbatch

WINDOW = {"size": 8}
WIDE_HEADS = LLAMA | {"head_dim": 20}
UNFUSED = {"attention": "unfused", "causal_mask": "none"}
GEMMA = WIDE_HEADS | {"activation": "geglu", "norms": "both", "tied_embeddings": True, "window": WINDOW}
LAYERNORM = LLAMA | {"norm": "layernorm", "activation": "gelu"}

# The model of a run file, and what recompute policies it is tried under.
OURS = {
    "qwen3": (WIDE_HEADS | {"qk_norm": "head"}, ["none", "full"]),
    "qwen3_unfused": (WIDE_HEADS | UNFUSED | {"qk_norm": "head"}, ["none"]),
    "qwen3_moe": (
        WIDE_HEADS | {"qk_norm": "head", "experts": ROUTED | {"router": {"order": "before", "precision": "model"}}}, ["none", "full"]),
    "olmo2": (LLAMA | {"norms": "post", "qk_norm": "full"}, ["none"]),
    "gemma2": (GEMMA | UNFUSED | {"attention_softcap": 50, "logit_softcap": 30}, ["none", "full"]),
    "gemma3": (GEMMA | {"qk_norm": "head"}, ["none"]),
    "gpt_oss": (
        WIDE_HEADS | {"activation": "swiglu_clamped", "biases": True, "sinks": True, "window": WINDOW,
                      "experts": ROUTED | {"biases": True, "router": {"precision": "model"}}}, ["none"]),
    "gpt_neox": (SIZES | UNFUSED | {"positions": "rotary", "residual": "parallel", "tied_embeddings": False}, ["none"]),
    "falcon": (LAYERNORM | {"kv_heads": 1, "residual": "parallel_one_norm", "tied_embeddings": True}, ["none"]),
    "cohere": (LAYERNORM | {"activation": "swiglu", "residual": "parallel_one_norm", "tied_embeddings": True}, ["none"]),
}  # fmt: skip
# What a class calls otherwise, or has besides.
THEIRS = {
    "gemma2": {"layer_types": ["sliding_attention"], "sliding_window": 8, "query_pre_attn_scalar": 20,
               "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3": {"layer_types": ["sliding_attention"], "sliding_window": 8, "query_pre_attn_scalar": 20},
    "gpt_oss": {"layer_types": ["sliding_attention"], "sliding_window": 8, "intermediate_size": ROUTED["ffn_hidden"]},
    "gpt_neox": {"hidden_dropout": 0.1, "attention_dropout": 0.1,
                 "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}},
    "falcon": {"multi_query": True, "parallel_attn": True, "new_decoder_architecture": False, "alibi": False, "bias": False},
}  # fmt: skip
KINDS = {"qwen3_unfused": "qwen3", "gemma3": "gemma3_text"}


def settings(name, vocabulary):
    """The configuration of a class."""
    ours = OURS[name][0]
    result = {
        "num_hidden_layers": 1, "hidden_size": ours["hidden"], "num_attention_heads": ours["heads"],
        "num_key_value_heads": ours.get("kv_heads", ours["heads"]), "head_dim": ours.get("head_dim", ours["hidden"] // ours["heads"]),
        "intermediate_size": ours["ffn_hidden"], "ffn_hidden_size": ours["ffn_hidden"], "vocab_size": vocabulary,
        "max_position_embeddings": SEQUENCE, "tie_word_embeddings": ours["tied_embeddings"], "use_cache": False,
        "pad_token_id": None, "bos_token_id": 0, "eos_token_id": 0, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}  # fmt: skip
    if experts := ours.get("experts"):
        result |= {
            "num_experts": experts["count"], "num_local_experts": experts["count"], "num_experts_per_tok": experts["per_token"],
            "moe_intermediate_size": experts["ffn_hidden"], "norm_topk_prob": True}
    return result | THEIRS.get(name, {})  # fmt: skip


def build(name, recompute, vocabulary=VOCABULARY):
    """The class's model, unchanged, with its own loss."""
    kind, ours = KINDS.get(name, name), OURS[name][0]
    known = transformers.AutoConfig.for_model(kind).to_dict().keys() | ({"head_dim"} if "head_dim" in ours else set())
    wanted = settings(name, vocabulary)
    config = transformers.AutoConfig.for_model(kind, **{key: wanted[key] for key in wanted.keys() & known})
    attention = "sdpa" if ours["attention"] == "flash" and name != "gpt_oss" else "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=torch.bfloat16).train()
    if recompute == "full":
        model.gradient_checkpointing_enable({"use_reentrant": True})
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for norm in model.modules():
        if isinstance(norm, torch.nn.LayerNorm):
            norm.float()  # as CUDA's kernels do it, the CPU's then keeps statistics in fp32
    return model


def inputs():
    tokens, labels = microbatch()
    return {"input_ids": tokens, "labels": labels, "shift_labels": labels}


def loss_of(output):
    """The mean over all tokens, as the class computes it."""
    return output.loss


def module_of(name):
    """A module's name in its layer, or in the model if it is in none."""
    return re.sub(r".*\.(layers|h)\.0\.?", "", name)


def versions():
    return {"torch": torch.__version__, "transformers": transformers.__version__}
