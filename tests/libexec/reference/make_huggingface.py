"""Runs one iteration of small mixtures of experts with Hugging Face's own classes, in double, and writes loss, logits and
gradients as JSON files beside itself, with the config.json of each.

usage: make_huggingface.py [DIRECTORY]

Weights are random. Where the classes compute in float32 whatever the model's type (routers, softmax, norms, rotary angles),
float32 is made float64; nothing else of them is changed. Parameters have stagecraft's names: queries, keys and values are one
matrix, experts one after another.

The tests only need the files. To make them again, outside of the repository (a few GB; no GPU is used):
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy transformers
    /tmp/venv/bin/python tests/libexec/reference/make_huggingface.py
The committed files were made with Python 3.11.7, torch 2.15.0 and transformers 5.23.0 (Qwen2-MoE, Llama 4 and
Granite: 5.24.0) on x86-64; other versions may differ in the last digits.
"""

import itertools
import json
import pathlib
import sys

import torch
import torch.nn.functional as F

torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double
import transformers  # noqa: E402, after float32 was made float64

BATCH = {"global": 4, "micro": 2}
# Heads are wider than h / a; base and epsilon are not the defaults.
SHARED = {
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 13,
    "max_position_embeddings": 8, "rms_norm_eps": 1e-3, "tie_word_embeddings": False, "attention_dropout": 0.0,
    "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}, "use_cache": False,
}  # fmt: skip
CONFIGS = {
    "mixtral": transformers.MixtralConfig(
        **SHARED, head_dim=4, intermediate_size=6, num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "qwen3_moe": transformers.Qwen3MoeConfig(
        **SHARED, head_dim=4, intermediate_size=14, moe_intermediate_size=6, num_experts=4, num_experts_per_tok=2,
        norm_topk_prob=True),
    "olmoe": transformers.OlmoeConfig(
        **SHARED | {"hidden_size": 16}, intermediate_size=6, num_experts=4, num_experts_per_tok=2, norm_topk_prob=False,
        pad_token_id=None, eos_token_id=None),
    # Its norms of latents have the default epsilon whatever the configuration says.
    "deepseek_v3": transformers.DeepseekV3Config(
        **SHARED | {"num_key_value_heads": 4, "rms_norm_eps": 1e-6}, intermediate_size=14, moe_intermediate_size=6,
        n_routed_experts=8, num_experts_per_tok=4, n_group=4, topk_group=2, n_shared_experts=2, first_k_dense_replace=1,
        routed_scaling_factor=2.5, norm_topk_prob=True, q_lora_rank=6, kv_lora_rank=5, qk_nope_head_dim=3,
        qk_rope_head_dim=2, v_head_dim=4, rope_interleave=False),
    "gpt_oss": transformers.GptOssConfig(
        **SHARED, head_dim=4, intermediate_size=6, num_local_experts=4, num_experts_per_tok=2, sliding_window=3),
    "qwen2_moe": transformers.Qwen2MoeConfig(
        **SHARED | {"hidden_size": 16}, intermediate_size=14, moe_intermediate_size=6, shared_expert_intermediate_size=10,
        num_experts=4, num_experts_per_tok=2, norm_topk_prob=False, decoder_sparse_step=1),
    # Every second layer is sparse. Norms of queries and keys and their temperature, which have no parameters, are off.
    "llama4": transformers.Llama4TextConfig(
        **SHARED, head_dim=4, intermediate_size=6, intermediate_size_mlp=14, num_local_experts=4, num_experts_per_tok=1,
        interleave_moe_layer_step=2, use_qk_norm=False, attn_temperature_tuning=False, no_rope_layers=[1, 1],
        attention_chunk_size=8),
    "granitemoe": transformers.GraniteMoeConfig(
        **SHARED | {"hidden_size": 16}, intermediate_size=6, num_local_experts=4, num_experts_per_tok=2,
        attention_multiplier=0.5),
}  # fmt: skip

# stagecraft's name of a layer's parameter, without ".weight", and what it is made of, one below the other.
PARTS = {
    "attention_norm": ["input_layernorm.weight"],
    "mlp_norm": ["post_attention_layernorm.weight"],
    "attention.qkv": ["self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"],
    "attention.qkv.bias": ["self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"],
    "core_attention.sinks": ["self_attn.sinks"],
    "attention.q_norm": ["self_attn.q_norm.weight"],
    "attention.k_norm": ["self_attn.k_norm.weight"],
    "attention.query_down": ["self_attn.q_a_proj.weight"],
    "attention.query_norm": ["self_attn.q_a_layernorm.weight"],
    "attention.query_up": ["self_attn.q_b_proj.weight"],
    "attention.key_down": ["self_attn.kv_a_proj_with_mqa.weight"],
    "attention.key_norm": ["self_attn.kv_a_layernorm.weight"],
    "attention.key_up": ["self_attn.kv_b_proj.weight"],
    "attention.projection": ["self_attn.o_proj.weight"],
    "attention.projection.bias": ["self_attn.o_proj.bias"],
    "mlp.up": ["mlp.gate_proj.weight", "mlp.up_proj.weight"],
    "mlp.down": ["mlp.down_proj.weight"],
    "router": ["mlp.gate.weight"],
    "router.weight": ["mlp.router.weight"],
    "router.bias": ["mlp.router.bias"],
    "experts.up": ["mlp.experts.gate_up_proj"],
    "experts.up.bias": ["mlp.experts.gate_up_proj_bias"],
    "experts.down": ["mlp.experts.down_proj"],
    "experts.down.bias": ["mlp.experts.down_proj_bias"],
    "shared_experts.up": ["mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight"],
    "shared_experts.down": ["mlp.shared_experts.down_proj.weight"],
    "shared_experts.up.weight": ["mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight"],
    "shared_experts.down.weight": ["mlp.shared_expert.down_proj.weight"],
    "shared_experts.gate": ["mlp.shared_expert_gate.weight"],
}
ENDS = {
    "embedding.weight": "model.embed_tokens.weight",
    "final_norm.weight": "model.norm.weight",
    "head.logits.weight": "lm_head.weight",
}


def by_expert(name, tensor):
    """GPT-OSS has the matrices of its experts transposed, and their gates and ups in turn."""
    if name.endswith("_proj"):
        tensor = tensor.transpose(1, 2)
    return torch.cat([tensor[:, ::2], tensor[:, 1::2]], 1) if "gate_up" in name else tensor


def llama4(name, tensor, config):
    """Llama 4 transposes the matrices of its experts, and rotates neighbouring elements of a head, not its halves."""
    if name.endswith(("gate_up_proj", "experts.down_proj")):
        return tensor.transpose(1, 2)
    if name.endswith(("q_proj.weight", "k_proj.weight")):
        return tensor.unflatten(0, (-1, config.head_dim // 2, 2)).transpose(1, 2).flatten(0, 2)
    return tensor


def named(model, values):
    """Tensors of a model under stagecraft's names; all of them."""
    left = dict(values)
    if model.config.model_type == "llama4_text":
        left = {name.replace("feed_forward", "mlp"): llama4(name, x, model.config) for name, x in left.items()}
    if model.config.model_type == "granitemoe":
        left = {name.replace("block_sparse_moe", "mlp"): x for name, x in left.items()}
    if model.config.model_type == "gpt_oss":
        left |= {name: by_expert(name, tensor) for name, tensor in left.items() if ".experts." in name}
    result = {ours: left.pop(theirs).flatten() for ours, theirs in ENDS.items()}
    for layer, (name, parts) in itertools.product(range(model.config.num_hidden_layers), PARTS.items()):
        theirs = [f"model.layers.{layer}.{part}" for part in parts]
        if theirs[0] in left:
            has_kind = name.endswith((".weight", ".bias", ".sinks"))
            result[f"layers.{layer}.{name}" + ("" if has_kind else ".weight")] = torch.cat([left.pop(part).flatten() for part in theirs])
    assert not left, f"not named: {sorted(left)}"
    return {name: tensor.tolist() for name, tensor in result.items()}


def run(config, seed):
    torch.manual_seed(seed)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).double().train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, dtype=torch.float64))
            if name.endswith("norm.weight"):
                parameter += 1
            if name.endswith("gate_up_proj_bias"):
                parameter *= 20  # beyond the limit of the activation
    sequences = torch.randint(config.vocab_size, (BATCH["global"], config.max_position_embeddings + 1))
    logits = model(sequences[:, :-1]).logits
    assert logits.dtype == torch.float64
    loss = F.cross_entropy(logits.flatten(0, 1), sequences[:, 1:].flatten())
    loss.backward()
    parameters = dict(model.named_parameters())
    return {
        "made_with": {"torch": torch.__version__, "transformers": transformers.__version__},
        "huggingface": json.loads(config.to_json_string(use_diff=False)),
        "batch": BATCH,
        "sequences": sequences.tolist(),
        "parameters": named(model, {name: x.detach() for name, x in parameters.items()}),
        "loss": float(loss.detach()),
        "logits": logits.detach().flatten().tolist(),
        "gradients": named(model, {name: x.grad for name, x in parameters.items()}),
    }


def text_of(contents):
    """JSON, one line for each entry."""
    return "{" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in contents.items()) + "}\n"


def main(directory):
    torch.set_num_threads(1)
    for seed, (name, config) in enumerate(CONFIGS.items()):
        text = text_of(run(config, seed))
        (directory / f"{name}.json").write_text(text)
        print(f"{name}.json: {len(text)} bytes")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
