"""What each tensor that Hugging Face's classes keep on the CPU is in stagecraft's op program, or why it is not there."""

from fractions import Fraction

from rules import ANY, HALF, SINGLE, Rule, at_peak
from run_files import MICRO, SEQUENCE, WIDE_VOCABULARY

DIFFERENCES = {
    "eager_norm": "a class computes its norm by several functions, which keep an fp32 copy of the input and the normed input before "
                  "it is multiplied by the weight; the fused kernel of the op program keeps the input as it is",
    "norm_weight": "the weight of a norm in fp32: Gemma's norms add 1 to theirs, Cohere's widen them",
    "centred_input": "Cohere's norm computes the input less its mean twice and keeps both, but not the mean",
    "separate_values": "behind attention's product a class keeps values alone, or copied for every query head; the op program keeps the "
                       "product's output [q | k | v], of which they are a view",
    "repeated_heads": "a class copies keys for all query heads that share them before attention with a window's mask or with sinks; the "
                      "fused attention of the op program reads them in place",
    "cosines": "rotary embedding as products keeps cosines and sines; a fused kernel reads one table, which belongs to the model",
    "attention_mask": "PyTorch's fused attention keeps the mask that it is given for a window, by Falcon also without one; the op "
                      "program's kernel is told the window",
    "eager_softmax": "attention as a class writes it keeps the output of softmax in fp32; the output of a fused kernel has 16 bits",
    "softmax_copy": "the 16-bit copy of an fp32 softmax; without dropout the op program's product reads the softmax's own output",
    "eager_sinks": "GPT-OSS attends by products: it keeps probabilities with a column for the sink, a copy without it, and where each "
                   "row has its maximum; the op program's flash attention keeps one number for each row",
    "cpu_dropout": "on the CPU the mask of dropout has the tensor's type; CUDA's kernel writes a byte for each element",
    "eager_activation": "a gated activation by several functions keeps the activated branch, GPT-OSS' clamped branches and sigmoid "
                        "too; the op program's kernel computes them again from its input",
    "unfused_router": "PyTorch's top-k, softmax and division keep indices of int64, probabilities of the chosen and their sums; the "
                      "fused router keeps the scores of all experts and a map of bytes",
    "unfused_permutation": "sorting rows by expert keeps indices of int64 and the offsets of experts; Transformer Engine's fused "
                           "permutation, which the op program has, keeps a map of rows of int32",
    "narrow_probabilities": "a class narrows the probabilities of the chosen to 16 bits; the op program, as Megatron-Core, does not",
    "weighted_output": "a class multiplies the output of experts by probabilities, whose gradient needs it; the op program, as "
                       "Megatron-Core, multiplies the activation",
    "embedding_scale": "Gemma multiplies the embedding by a number, a tensor of 16 bits, which the op program leaves out",
    "index_of_head": "Falcon cuts keys and values out of one product by lists of one index each",
    "target_count": "PyTorch's mean of the losses keeps the number of targets",
    "wide_logits": "a class holds an fp32 copy of the logits beside their softmax; the op program computes the softmax in place",
    "wide_gradient": "PyTorch computes the gradient of fp32 logits from that of their logarithms, in fp32 too; the op program does so "
                     "in the softmax's place and then narrows it",
    "loss_scalar": "the mean of the losses, and its gradient",
    "model_state": "the rotary table, masks and positions that the model made for its layers; a checkpoint holds them for recompute",
}  # fmt: skip

FINAL = r"(model\.norm|gpt_neox\.final_layer_norm|transformer\.ln_f)"
WORDS = r".*(embed_tokens|embed_in|word_embeddings)"
ATTENTION = r"(self_attn|self_attention|attention)"
DROPPED = {"difference": "cpu_dropout", "factor": 2}


def norm(module, name, kept=None, factor=2):
    """An RMS norm's or layer norm's input, `factor` times as large in fp32, and statistics."""
    return [
        Rule(module, "layer_norm", HALF, kept or name + ".input"),
        Rule(module, "layer_norm", SINGLE, name + ".statistics"),
        Rule(module, "rsqrt", SINGLE, name + ".statistics"),
        Rule(module, "pow", SINGLE, kept or name + ".input", "eager_norm", factor),
        Rule(module, "mul", SINGLE, "", "norm_weight", shape=r"\(\d+,\)"),
        Rule(module, "mul", ANY, "", "eager_norm"),
    ]


def centred_norm(module, name, kept=None):
    """Cohere's layer norm, written as functions. The op program keeps the mean of each row too."""
    return [
        Rule(module, "rsqrt", SINGLE, name + ".statistics", "centred_input", Fraction(1, 2)),
        Rule(module, "mul", SINGLE, "", "centred_input", shape=r"\(.*, .*\)", times=1),
        *norm(module, name, kept),
    ]


def attention_core(name, model):
    """Attention's operands and results. PyTorch's fused attention keeps keys, queries and values in this order, products
    keep queries and keys first."""
    heads, groups = model["heads"], model.get("kv_heads", model["heads"])
    of_values = Fraction(groups, heads + 2 * groups)  # values' part of [q | k | v]
    repeats = heads // groups
    square = r".*, (\d+), \1\)"
    core = [
        Rule(ATTENTION, "mul", ANY, "", "cosines"),
        Rule(ATTENTION, "tanh", HALF, "core_attention.scores"),
        Rule(ATTENTION, "softmax", SINGLE, "core_attention.softmax_output", "eager_softmax", 2),
        Rule(ATTENTION, "dropout", HALF, "core_attention.dropout_mask", **DROPPED),
        Rule(ATTENTION, "scaled_dot_product_attention", HALF, "", "attention_mask", shape=square),
    ]
    # Norms of queries and keys keep the other parts, so that values stand for no more than themselves.
    part = 1 if "qk_norm" in model else of_values
    if name == "gpt_oss":
        return [
            Rule(ATTENTION, "max", "int64", "", "eager_sinks"),
            Rule(ATTENTION, "softmax", HALF, "", "eager_sinks"),
            Rule(ATTENTION, "matmul", HALF, "", "eager_sinks", shape=square),
            Rule(ATTENTION, "matmul", HALF, "core_attention.rotated_q", times=1),
            Rule(ATTENTION, "matmul", HALF, "core_attention.rotated_k", "repeated_heads", repeats, times=1),
            Rule(ATTENTION, "matmul", HALF, "core_attention.qkv", "separate_values", repeats * part),
            *core,
        ]
    if model["attention"] == "unfused":
        values = ["core_attention.repeated_v"] if repeats > 1 else ["core_attention.qkv", "separate_values", of_values]
        probabilities = ["core_attention.dropout_output"] if model.get("dropout", 0.1) > 0 else ["", "softmax_copy"]
        keys = "core_attention.repeated_k" if repeats > 1 else "core_attention.rotated_k"
        return [
            Rule(ATTENTION, "matmul", HALF, *probabilities, shape=square),
            Rule(ATTENTION, "matmul", HALF, f"core_attention.rotated_q|{keys}", times=2),
            Rule(ATTENTION, "matmul", HALF, *values),
            *core,
        ]
    # With the mask of a window the class hands over copies of keys and values for every query head.
    copies = repeats if "window" in model else 1
    fused = (ATTENTION, "scaled_dot_product_attention", HALF)
    return [
        *core,
        Rule(ATTENTION, "scaled_dot_product_attention", SINGLE, "core_attention.log_sum_exp"),
        Rule(*fused, "core_attention.rotated_k", "repeated_heads", copies, times=1),
        Rule(*fused, "core_attention.rotated_q", times=1),
        Rule(*fused, "core_attention.qkv", "separate_values", copies * part, times=1),
        Rule(*fused, "attention.projection.input"),
    ]


def attention(name, model):
    """Products before and after attention, and norms of queries and keys."""
    heads, groups = model["heads"], model.get("kv_heads", model["heads"])
    # Unfused attention keeps copies of values, so that of [q | k | v] only queries and keys are kept, in fp32.
    is_alone = model["attention"] == "unfused"
    of_both = Fraction(2 * (heads + groups), heads + 2 * groups) if is_alone else 2
    of_input = "attention.qkv.input" if model.get("norms") != "post" else "attention_norm.input"
    return [
        *norm(ATTENTION + r"\.q_norm", "attention.q_norm", "core_attention.qkv", of_both),
        *norm(ATTENTION + r"\.k_norm", "attention.k_norm", "core_attention.qkv", of_both),
        Rule(ATTENTION + r"\.(q_proj|query_key_value)", "linear|matmul", HALF, of_input),
        Rule(ATTENTION, "__getitem__", "int64", "", "index_of_head"),
        *attention_core(name, model),
        Rule(ATTENTION + r"\.(o_proj|dense)", "linear|matmul", HALF, "attention.projection.input"),
    ]


def feed_forward(model):
    """A dense MLP, or experts whose rows are sorted."""
    after_norm = "mlp.up.input" if model.get("norms") != "post" else "mlp_norm.input"
    rows = ("mlp.experts", "mul", HALF)
    return [
        Rule(r"mlp\.(gate_proj|dense_h_to_4h)", "linear|matmul", HALF, after_norm),
        Rule(r"mlp\.(act|act_fn)", "silu|gelu", HALF, "mlp.activation.input"),
        Rule("mlp", "mul", HALF, "mlp.activation.input|", "eager_activation"),
        Rule(r"mlp\.(down_proj|dense_4h_to_h)", "linear|matmul", HALF, "mlp.down.input"),
        Rule(r"mlp\.(gate|router)", "linear", HALF, "experts.input"),
        Rule(r"mlp\.gate", "softmax", SINGLE, "router.scores"),
        Rule(r"mlp\.(gate|router)", "topk|softmax|div_", ANY, "", "unfused_router"),
        Rule(r"mlp\.experts", "__getitem__|_grouped_mm", "int64|int32", "", "unfused_permutation"),
        Rule(r"mlp\.experts", "_grouped_mm", HALF, "dispatch.rows|experts.down.input"),
        Rule(r"mlp\.experts(\.act_fn)?", "silu|clamp", HALF, "experts.activation.input"),
        Rule(*rows, "dispatch.probabilities", "narrow_probabilities", Fraction(1, 2), shape=r".*, 1\)"),
        Rule(*rows, "", "weighted_output", shape=rf".*, {model['hidden']}\)"),
        Rule(r"mlp\.experts", "mul|sigmoid", HALF, "", "eager_activation"),
    ]


def norms(name, model):
    """The norms of a layer and the last one. The op program calls the input of a norm behind a product that product's output."""
    before = [("input_layernorm", "attention_norm", None), ("post_attention_layernorm", "mlp_norm", None)]
    if model.get("norms") == "both":
        before[1] = ("pre_feedforward_layernorm", "mlp_norm", None)
    behind = [("post_attention_layernorm", "attention_post_norm", "attention.projection.output"),
              ("post_feedforward_layernorm", "mlp_post_norm", "mlp.down.output")]  # fmt: skip
    of_layer = {"pre": before, "both": before + behind, "post": behind}[model.get("norms", "pre")]
    of_class = centred_norm if name == "cohere" else norm
    return [rule for module, *names in [*of_layer, (FINAL, "final_norm")] for rule in of_class(module, *names)]


def rules(name, model, recompute):
    """All rules for a model under a recompute policy; the first that matches holds."""
    return [
        Rule(WORDS, "embedding", "int64", "tokens"),
        Rule(WORDS, "mul", HALF, "", "embedding_scale"),
        Rule(r"gpt_neox\.emb_dropout", "dropout", HALF, "embedding.dropout_mask", **DROPPED),
        *norms(name, model),
        *attention(name, model),
        Rule("post_attention_dropout", "dropout", HALF, "attention.output.dropout_mask", **DROPPED),
        *feed_forward(model),
        Rule("post_mlp_dropout", "dropout", HALF, "mlp.output.dropout_mask", **DROPPED),
        Rule("", "", HALF, "attention_norm.input"),
        Rule("lm_head", "linear", HALF, "head.logits.input"),
        Rule("", "tanh", HALF, "head.logits.output"),
        Rule("", "cross_entropy", SINGLE, "", "target_count", shape=r"\(\)"),
        Rule("", "cross_entropy", SINGLE, "loss.softmax"),
        Rule("", "cross_entropy", "int64", "loss.labels"),
    ]


def only_ours(name, model, recompute):
    """Tensors of the op program that a class does not keep: the difference that says why, and bytes counted by hand."""
    tokens = MICRO * SEQUENCE
    result = {}
    experts = model.get("experts")
    if experts and recompute == "none":
        count = experts["count"]
        result["router.map"] = ["unfused_router", tokens * count]  # a byte for each token and expert
        result["dispatch.row_map"] = ["unfused_permutation", tokens * (2 * count + 1) * 4]  # int32: rows, experts, how many
    if name == "gpt_oss":
        result["router.scores"] = ["unfused_router", tokens * experts["count"] * 4]  # fp32
        result["core_attention.log_sum_exp"] = ["eager_sinks", tokens * model["heads"] * 4]  # fp32
    return result


def at_peaks(model):
    """What exists at a peak and is not kept; with a wide vocabulary the logits do."""
    of_words = {"shape": rf".*, {WIDE_VOCABULARY}\)"}
    return [
        at_peak("mm|mul", HALF, "head.logits", **of_words),
        at_peak("_to_copy", SINGLE, "", "wide_logits", **of_words),
        at_peak("nll_loss_backward", SINGLE, "", "wide_gradient", **of_words),
        at_peak("_log_softmax_backward_data", SINGLE, "head.logits", "wide_gradient", 2, **of_words),
        at_peak("nll_loss_forward|ones_like", SINGLE, "", "loss_scalar"),
        at_peak("add|where|_to_copy", ANY, "", "model_state"),
    ]
