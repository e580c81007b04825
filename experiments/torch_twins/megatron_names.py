"""What each tensor that Megatron-Core's modules keep on the CPU is in stagecraft's op program, or why it is not there."""

import dataclasses
import fractions

from rules import ANY, HALF, SINGLE, Rule, at_peak
from run_files import MICRO, SEQUENCE, WIDE_VOCABULARY

DIFFERENCES = {
    "cpu_rms_norm": "PyTorch's RMS norm on the CPU keeps two fp32 tensors, its input and the normalised input; CUDA's fused kernel "
                    "and Transformer Engine's keep the input as it is",
    "cpu_dropout": "on the CPU the mask of dropout has the tensor's type; CUDA's kernel writes a byte for each element",
    "torch_softmax": "where its fused kernel is not available, Megatron-Core computes the softmax in fp32 and keeps that beside "
                     "the 16-bit copy that dropout or the product reads; the fused kernel keeps a 16-bit output",
    "no_dropout_copy": "the 16-bit copy of an fp32 softmax; without dropout the op program's product reads the softmax's own output",
    "cosines": "rotary embedding as four products keeps cosines and sines, each twice; a fused kernel reads one table, which "
               "belongs to the model",
    "positions": "the lookup of learned positions keeps their numbers; the op program adds the rows in order",
    "target_mask": "Megatron-Core's loss keeps which targets are in another rank's part of the vocabulary; the op program asks "
                   "the targets again",
    "mask_type": "a checkpoint keeps the type of mask, an int32",
    "unfused_router": "PyTorch's top-k, softmax and gather keep indices of int64 and fp32 probabilities of the chosen; "
                      "the fused router keeps the scores of all experts",
    "unfused_permutation": "permuting by index keeps indices of int64 and the map's fp32 probabilities; Transformer Engine's "
                           "fused permutation keeps a map of rows of int32",
    "separate_latent_norms": "Megatron-Core's local modules norm the latents before what is recomputed and keep both sides; "
                             "with Transformer Engine, as in the op program, the norm is part of the product up and recomputed",
    "key_latents": "a checkpoint keeps the keys' rotated part, a view of all that the product down to the latents wrote, beside the "
                   "norm's own input; the op program's norm reads the same buffer",
    "rotary_table": "a checkpoint keeps the table of angles that it is given, in fp32; it belongs to the model",
    "mask_of_checkpoint": "a checkpoint of a layer keeps the mask that the caller made, though flash attention does not read it",
    "joined_states": "Megatron-Core copies the hidden states of the model and of modules of multi-token prediction into one tensor for "
                     "the head, besides what the norm of a module keeps of them (here two fp32 tensors); in the op program that norm "
                     "and the head read one buffer",
    "prediction_loss": "the loss of a module is masked, summed and attached to the model's: masks of int64, losses, number of tokens",
    "prediction_logits": "GPTModel holds the logits of the last module while it computes the model's own and their loss",
    "attention_buffer": "Megatron-Core's unfused attention has a buffer of all scores (its global memory buffer), which beta 0 "
                        "leaves unread and which is never freed",
    "embedding_output": "GPTModel.forward holds the output of the embedding until it returns; here the norm keeps a copy of its own",
    "dispatcher_state": "the dispatcher of tokens holds routing maps and counts until it is used again",
    "loss_vectors": "a value for each token while the loss is computed; the op program has fewer at that instant",
    "loss_scalar": "the mean of the losses, and its gradient",
}  # fmt: skip


CORE = r"self_attention\.core_attention"
EXPERT = r"mlp\.experts\.local_experts\.\d+"
DROPPED = {"difference": "cpu_dropout", "factor": 2}


def norm(module, name, kept=None, factor=4, **statistics):
    """A norm's input and statistics. RMS norm's two fp32 tensors together are `factor` times what is kept of the input."""
    return [
        Rule(module, "layer_norm", HALF, name + ".input"),
        Rule(module, "layer_norm", SINGLE, name + ".statistics"),
        Rule(module, "rms_norm", SINGLE, name + ".statistics", shape=r".*, 1\)", **statistics),
        Rule(module, "rms_norm", SINGLE, kept or name + ".input", "cpu_rms_norm", factor),
    ]


def latent_norms(model, recompute):
    """Of the latents of queries and of keys; the latter is part of what one product writes."""
    latent = model.get("latent_attention")
    if not latent:
        return []
    wide = latent["key_rank"] + latent["rope_dim"]
    again = {"difference": "separate_latent_norms"} if recompute == "mla_up_projection" else {}
    factor = fractions.Fraction(4 * latent["key_rank"], wide)
    names = [("query", "q", 4), ("key", "kv", factor)]
    result = []
    for ours, theirs, times in names:
        rules = norm(rf"self_attention\.{theirs}_layernorm", f"attention.{ours}_norm", f"attention.{ours}_down.output", times, **again)
        result += [dataclasses.replace(rule, name="" if rule.difference == "separate_latent_norms" else rule.name) for rule in rules]
    return result


def core_attention(model, recompute):
    """Attention's operands, in the order in which PyTorch's functions keep them, and what a checkpoint of it is given."""
    if latent := model.get("latent_attention"):
        operands = "core_attention.k|core_attention.rotated_q|core_attention.v"
        given = [
            Rule("self_attention", "", HALF, "", "separate_latent_norms", shape=rf".*, ({latent['query_rank']}|{latent['key_rank']})\)"),
            Rule("self_attention", "", HALF, "", "key_latents"),
        ]
    elif model.get("positions") == "rotary":
        operands = "core_attention.rotated_k|core_attention.rotated_q|core_attention.qkv"
        given = [Rule("self_attention", "", HALF, "core_attention.rotated_q|core_attention.rotated_k|core_attention.qkv")]
    else:
        operands, given = "", [Rule("self_attention", "", HALF, "core_attention.qkv")]
    if recompute == "mla_up_projection":
        operands = ""
    has_dropout = model.get("dropout", 0.1) > 0
    products = "core_attention.qkv" if not model.get("positions") else "core_attention.rotated_q|core_attention.repeated_k"
    square = r".*, (\d+), \1\)"
    return given + [
        Rule(CORE, "scaled_dot_product_attention", HALF, f"{operands}|attention.projection.input".strip("|")),
        Rule(CORE, "scaled_dot_product_attention", SINGLE, "core_attention.log_sum_exp"),
        Rule(CORE, "baddbmm", HALF, products),
        Rule(CORE, "bmm", HALF, *(["core_attention.dropout_output"] if has_dropout else ["", "no_dropout_copy"]), shape=square),
        Rule(CORE, "bmm", HALF, "core_attention.repeated_v"),
        Rule(CORE + r"\.scale_mask_softmax", "masked_fill_", "bool", "causal_mask"),
        Rule(CORE + r"\.scale_mask_softmax", "softmax", SINGLE, "core_attention.softmax_output", "torch_softmax", 2),
        Rule(CORE + r"\.attention_dropout", "dropout", HALF, "core_attention.dropout_mask", **DROPPED),
        Rule("self_attention", "", "bool", "causal_mask"),
        Rule("self_attention", "", "int32", "", "mask_type"),
        Rule("self_attention", "", SINGLE, "", "rotary_table"),
        Rule("self_attention", "mul", HALF, "", "cosines"),
    ]


def layer(model, recompute):
    """What a layer keeps."""
    is_whole = recompute in ("moe", "shared_experts")
    return [
        *norm("input_layernorm", "attention_norm"),
        *norm("pre_mlp_layernorm", "mlp_norm"),
        *latent_norms(model, recompute),
        Rule(r"self_attention\.(linear_qkv|linear_q_down_proj)", ANY, HALF, "attention.qkv.input"),
        Rule(r"self_attention\.linear_q_up_proj", ANY, HALF, "attention.query_norm.output"),
        Rule(r"self_attention\.linear_kv_up_proj", ANY, HALF, "attention.key_norm.output"),
        Rule(r"self_attention\.linear_proj", ANY, HALF, "attention.projection.input"),
        *core_attention(model, recompute),
        Rule("", "dropout", HALF, "attention.output.dropout_mask|mlp.output.dropout_mask", **DROPPED),
        Rule(r"mlp\.linear_fc1", ANY, HALF, "mlp.up.input"),
        Rule("mlp", "", HALF, "experts.input" if is_whole else "mlp.activation.input"),
        Rule(r"mlp\.linear_fc2", ANY, HALF, "mlp.down.input"),
        Rule(r"mlp\.shared_experts", "", HALF, "shared_experts.activation.input"),
        Rule(r"mlp\.shared_experts\.linear_fc2", ANY, HALF, "shared_experts.down.input"),
        Rule(r"mlp\.shared_experts", "sigmoid", HALF, "shared_experts.gate.logits"),
        Rule(r"mlp\.shared_experts", "mul", HALF, "shared_experts.down.output"),
        Rule(r"mlp\.(shared_experts\.linear_fc1|router)", "", HALF, "experts.input"),
        Rule(r"mlp\.router", "sigmoid", SINGLE, "router.scores"),
        Rule(r"mlp\.router", "topk|softmax|gather|div", ANY, "", "unfused_router"),
        Rule("mlp", "masked_select", "bool", "router.map"),
        Rule("mlp", "masked_select|index_select", ANY, "", "unfused_permutation"),
        Rule(EXPERT + r"\.linear_fc1", ANY, HALF, "dispatch.rows"),
        Rule(EXPERT, ANY, HALF, "experts.activation.input"),
        Rule(EXPERT, ANY, SINGLE, "dispatch.probabilities"),
        Rule(EXPERT + r"\.linear_fc2", ANY, HALF, "experts.down.input"),
    ]


def prediction(model, recompute):
    """What a module of multi-token prediction keeps, under the op program's names behind `prediction.`"""

    def behind(rule):
        names = "|".join(name and "prediction." + name.removeprefix("prediction.") for name in rule.name.split("|"))
        return dataclasses.replace(rule, module=r"mtp\.layers\.0\." + rule.module, name=names)

    of_layer = [dataclasses.replace(rule, module=r"transformer_layer\." + rule.module) for rule in layer(model, recompute)]
    return [
        *map(behind, [
            *of_layer,
            *norm("enorm", "embedding_norm"),
            Rule("hnorm", "rms_norm", SINGLE, "", "joined_states", shape=r".*, \d{2,}\)"),
            *norm("hnorm", "hidden_norm"),
            *norm("final_layernorm", "final_norm"),
            Rule("eh_proj", ANY, HALF, "projection.input"),
        ]),
        Rule(r"mtp\.layers\.0", "", HALF, "", "joined_states", times=1),
        Rule(r"mtp\.layers\.0", "", HALF, "prediction.embedding_norm.input"),
        Rule("", "mul|div", "int64", "", "prediction_loss"),
        Rule("", "", SINGLE, "", "prediction_loss", shape=r"\(\d+, \d+\)"),
    ]  # fmt: skip


def rules(name, model, recompute):
    """All rules for a model under a recompute policy; the first that matches holds."""
    has_mask = model.get("causal_mask") != "none"
    return [
        Rule(r"embedding\.word_embeddings", "embedding", "int64", "tokens"),
        Rule(r"embedding\.position_embeddings", "embedding", "int64", "", "positions"),
        Rule(r"embedding\.embedding_dropout", "dropout", HALF, "embedding.dropout_mask", **DROPPED),
        *norm(r"decoder\.final_layernorm", "final_norm"),
        *layer(model, recompute),
        *(prediction(model, recompute) if "predicted_tokens" in model else []),
        Rule("decoder", "", HALF, "attention_norm.input"),
        Rule("decoder", "", "bool", *(["causal_mask"] if has_mask else ["", "mask_of_checkpoint"])),
        Rule("decoder", "", SINGLE, "", "rotary_table"),
        Rule("output_layer", ANY, HALF, "head.logits.input"),
        Rule("", "", SINGLE, "loss.softmax"),
        Rule("", "", "bool", "", "target_mask"),
        Rule("", "", "int64", "loss.labels"),
    ]


def only_ours(name, model, recompute):
    """Tensors of the op program that Megatron-Core's modules do not keep here, with the difference that says why and
    bytes counted by hand."""
    tokens, experts = MICRO * SEQUENCE, model.get("experts")
    if not experts or recompute in ("moe", "full"):
        return {}
    # A map of int32: each token's rows, their experts, and how many there are.
    result = {"dispatch.row_map": ["unfused_permutation", tokens * (2 * experts["count"] + 1) * 4]}
    if experts.get("router", {}).get("score") != "sigmoid":
        result["router.scores"] = ["unfused_router", tokens * experts["count"] * 4]  # fp32
    return result


def at_peaks(model):
    """What exists at a peak and is not kept; with a wide vocabulary the logits do."""
    logits = {"dtype": HALF, "shape": rf".*, {WIDE_VOCABULARY}\)"}
    return [
        *([at_peak("mm", difference="prediction_logits", times=1, **logits)] if "predicted_tokens" in model else []),
        at_peak("mm|_to_copy", name="head.logits", **logits),
        at_peak("empty|slice", HALF, "", "attention_buffer", shape=r"\(\d+,\)"),
        at_peak("clone|_to_copy", HALF, "", "embedding_output"),
        at_peak("cat|_to_copy", SINGLE, "", "rotary_table"),
        at_peak("scatter|_to_copy|sum|masked_select", ANY, "", "dispatcher_state"),
        at_peak("clone|max|arange|index|roll|mul", "int64|float32", "", "loss_vectors"),
        at_peak("mean|ones_like|zeros|select", SINGLE, "", "loss_scalar"),
    ]
