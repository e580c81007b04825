"""The twins made of Megatron-Core's own modules, each beside the run file of the same model."""

import megatron_on_cpu

megatron_on_cpu.prepare()

import megatron.core  # noqa: E402, after CUDA was taken out
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec, get_gpt_mtp_block_spec  # noqa: E402
from megatron.core.transformer import MLATransformerConfig, TransformerConfig  # noqa: E402
from megatron.core.transformer.spec_utils import ModuleSpec  # noqa: E402
from run_files import HIDDEN, LLAMA, MICRO, ROUTED, SEQUENCE, SIZES, VOCABULARY, microbatch  # noqa: E402

SIGMOID = {"score": "sigmoid", "scaling": 2.5, "groups": 4, "groups_per_token": 2, "bias": True}
LATENT = {"query_rank": 48, "key_rank": 32, "nope_dim": 16, "rope_dim": 8, "value_dim": 24}

# The model of a run file, and what recompute policies it is tried under.
OURS = {
    "gpt": (SIZES, ["none", "selective", "full"]),
    "llama": (LLAMA, ["none", "full"]),
    "llama_unfused": (LLAMA | {"attention": "unfused", "causal_mask": "per_microbatch"}, ["none", "selective"]),
    "mixtral": (LLAMA | {"experts": ROUTED}, ["none", "moe", "full"]),
    "qwen2_moe": (
        LLAMA | {"qkv_bias": True, "experts": ROUTED | {"shared_ffn_hidden": 40, "shared_gate": True}}, ["none", "shared_experts"]),
    "deepseek": (
        LLAMA | {"kv_heads": 4, "head_dim": 24, "latent_attention": LATENT,
                 "experts": ROUTED | {"shared_ffn_hidden": 40, "router": SIGMOID}}, ["none", "mla_up_projection", "moe", "full"]),
    "llama_mtp": (LLAMA | {"predicted_tokens": 1}, ["none", "full"]),
}  # fmt: skip
RECOMPUTE = {
    "none": {},
    "selective": {"recompute_granularity": "selective", "recompute_modules": ["core_attn"]},
    "full": {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1},
    "moe": {"recompute_granularity": "selective", "recompute_modules": ["moe"]},
    "shared_experts": {"recompute_granularity": "selective", "recompute_modules": ["shared_experts"]},
    "mla_up_projection": {"recompute_granularity": "selective", "recompute_modules": ["mla_up_proj"]},
}


class FlashAttention(torch.nn.Module):
    """In place of Transformer Engine's attention: PyTorch's own flash attention, which the CPU has too."""

    def __init__(self, config, *args, softmax_scale=None, **others):
        super().__init__()
        self.scale = softmax_scale

    def forward(self, query, key, value, *args, **others):
        query, key, value = (x.permute(1, 2, 0, 3) for x in (query, key, value))
        has_groups = query.shape[1] != key.shape[1]
        output = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=has_groups, scale=self.scale)
        return output.permute(2, 0, 1, 3).flatten(2)


def settings(ours, recompute):
    """Megatron-Core's configuration of a model of a run file."""
    is_llama = ours.get("norm") == "rmsnorm"
    result = {
        "num_layers": 1, "hidden_size": HIDDEN, "num_attention_heads": ours["heads"], "ffn_hidden_size": ours["ffn_hidden"],
        "mtp_num_layers": ours.get("predicted_tokens"),
        "use_cpu_initialization": True, "bf16": True, "params_dtype": torch.bfloat16, "bias_dropout_fusion": True,
        "bias_activation_fusion": True, "gradient_accumulation_fusion": True,
        "hidden_dropout": ours.get("dropout", 0.1), "attention_dropout": ours.get("dropout", 0.1),
        "add_bias_linear": not is_llama, "add_qkv_bias": ours.get("qkv_bias", False)} | RECOMPUTE[recompute]  # fmt: skip
    if is_llama:
        result |= {"normalization": "RMSNorm", "gated_linear_unit": True, "activation_func": F.silu, "num_query_groups": ours["kv_heads"]}
    experts = ours.get("experts")
    if experts:
        router = experts.get("router", {})
        result |= {
            "num_moe_experts": experts["count"], "moe_router_topk": experts["per_token"], "moe_ffn_hidden_size": experts["ffn_hidden"],
            "moe_token_dispatcher_type": "alltoall", "moe_router_dtype": "fp32", "moe_router_load_balancing_type": "none",
            "moe_router_score_function": router.get("score", "softmax"),
            "moe_shared_expert_intermediate_size": experts.get("shared_ffn_hidden"),
            "moe_shared_expert_gate": experts.get("shared_gate", False)}  # fmt: skip
        if router:
            result |= {
                "moe_router_num_groups": router["groups"], "moe_router_group_topk": router["groups_per_token"],
                "moe_router_topk_scaling_factor": router["scaling"], "moe_router_enable_expert_bias": router["bias"]}  # fmt: skip
    latent = ours.get("latent_attention")
    if latent:
        result |= {
            "multi_latent_attention": True, "q_lora_rank": latent["query_rank"], "kv_lora_rank": latent["key_rank"],
            "qk_head_dim": latent["nope_dim"], "qk_pos_emb_head_dim": latent["rope_dim"], "v_head_dim": latent["value_dim"],
            "rope_type": "rope"}  # fmt: skip
    return result


def build(name, recompute, vocabulary=VOCABULARY):
    """Megatron-Core's model with its own modules; only the fused attention, which needs a GPU, is PyTorch's."""
    ours = OURS[name][0]
    is_latent, is_llama = "latent_attention" in ours, ours.get("norm") == "rmsnorm"
    config = (MLATransformerConfig if is_latent else TransformerConfig)(**settings(ours, recompute))
    spec = get_gpt_layer_local_spec(
        num_experts=config.num_moe_experts, normalization=config.normalization,
        multi_latent_attention=is_latent, qk_layernorm=is_latent)  # fmt: skip
    if ours.get("attention") == "flash":
        spec.submodules.self_attention.submodules.core_attention = ModuleSpec(module=FlashAttention)
    model = GPTModel(
        config, spec, vocabulary, SEQUENCE, mtp_block_spec=get_gpt_mtp_block_spec(config, spec, use_transformer_engine=False),
        position_embedding_type="rope" if is_llama else "learned_absolute",
        share_embeddings_and_output_weights=ours.get("tied_embeddings", True)).train().bfloat16()  # fmt: skip
    for parameter in model.parameters():
        parameter.main_grad, parameter.grad = torch.zeros_like(parameter), torch.zeros_like(parameter)
    for norm in (module for name, module in model.named_modules() if name.endswith("norm")):
        norm.float()  # as CUDA's kernels do it, the CPU's then keeps statistics in fp32
    return model


def inputs():
    """Tokens, positions, the mask of unfused attention and labels of one microbatch."""
    tokens, labels = microbatch()
    mask = torch.triu(torch.ones(1, 1, SEQUENCE, SEQUENCE, dtype=torch.bool), 1)
    positions = torch.arange(SEQUENCE).expand(MICRO, -1).contiguous()
    return {"input_ids": tokens, "position_ids": positions, "attention_mask": mask, "labels": labels}


def loss_of(output):
    """The model returns a loss for each token."""
    return output.float().mean()


def module_of(name):
    """A module's name in its layer, or in the model if it is in none."""
    return name.removeprefix("decoder.layers.0").removeprefix(".")


def versions():
    return {"torch": torch.__version__, "megatron-core": megatron.core.__version__}
