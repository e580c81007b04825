#include "libsim/import/megatron/megatron_model.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "libsim/import/megatron/megatron_attention.hpp"
#include "libsim/import/megatron/megatron_keys.hpp"
#include "libsim/import/number_ranges.hpp"
#include "libsim/model/model_keys.hpp"

namespace stagecraft {
namespace {

/// A number with two names, the first of which is required if the second is missing.
std::int64_t required_either(MegatronArguments const& arguments,
                             std::string_view name,
                             std::string_view other,
                             IntegerRange range,
                             std::string_view remedy = {}) {
  if (arguments.has(other) && !arguments.has(name)) return arguments.required(other, range, "");
  return arguments.required(name, range, remedy);
}

void read_shape(MegatronArguments& arguments, ModelConfig& model) {
  model.layers = required_either(arguments, "num-layers", "encoder-num-layers", {1, 100'000},
                                 ", or --model NAME, of which a checkpoint is trained");
  model.hidden = arguments.required("hidden-size", widths, "");
  model.heads = arguments.required("num-attention-heads", {1, 1 << 20}, "");
  model.sequence = required_either(arguments, "seq-length", "encoder-seq-length", widths);
  model.kv_heads = model.heads;
  // Megatron-DeepSpeed's flag says groups alone.
  if (auto const heads = arguments.integer("num-key-value-heads", {1, 1 << 20})) {
    model.kv_heads = *heads;
  }
  // Of bigcode-project/Megatron-LM, and of Pai-Megatron-Patch's StarCoder and Falcon.
  std::string const heads_type = arguments.text("attention-head-type").value_or("multihead");
  if (heads_type == "multiquery") {
    model.kv_heads = 1;
  } else if (heads_type != "multihead") {
    arguments.report("attention-head-type", "multihead, multiquery");
  }
  bool const has_groups = arguments.has("group-query-attention");
  auto const groups = arguments.integer("num-query-groups", {1, 1 << 20});
  if (has_groups) {
    model.kv_heads = groups.value_or(1);
  } else if (groups && *groups != model.heads) {
    arguments.refuse(
        "num-query-groups", "--group-query-attention beside it",
        {"a key and value head for each query head, as Megatron-LM does", {}, OmittedEffect::none});
  }
  model.head_dim = arguments.integer("kv-channels", widths).value_or(0);
  if (model.head_dim == 0 && model.heads > 0) {
    if (model.hidden % model.heads != 0) {
      arguments.report("num-attention-heads", "a divisor of --hidden-size (" +
                                                  std::to_string(model.hidden) +
                                                  "), or --kv-channels given");
    }
    model.head_dim = std::max<std::int64_t>(1, model.hidden / model.heads);
  }
}

/// The ranks and heads of latent attention; arguments.py has the defaults.
void read_latents(MegatronArguments& arguments, ModelConfig& model) {
  auto const size = [&](std::string_view name, std::int64_t fallback) {
    return arguments.integer(name, widths).value_or(fallback);
  };
  model.latent_attention = {.query_rank = size("q-lora-rank", 0),
                            .key_rank = size("kv-lora-rank", 32),
                            .nope_dim = size("qk-head-dim", 128),
                            .rope_dim = size("qk-pos-emb-head-dim", 64),
                            .value_dim = size("v-head-dim", 128)};
  model.head_dim = model.latent_attention.nope_dim + model.latent_attention.rope_dim;
  model.kv_heads = model.heads;
  model.positions = Positions::rotary;
}

/// Norms of queries and keys, or of their latents.
void read_qk_norms(MegatronArguments& arguments, ModelConfig& model) {
  bool const has_norms = arguments.has("qk-layernorm");
  if (has_latents(model)) {
    if (!has_norms) {
      arguments.refuse("multi-latent-attention", "--qk-layernorm beside it",
                       {"norms of the latents", "less time and memory"});
    }
    return;
  }
  if (!has_norms) return;
  model.qk_norm = QkNorm::head;
  if (model.norm == Norm::layernorm) {
    arguments.refuse(
        "qk-layernorm", "--normalization RMSNorm beside it",
        {"RMS norms of queries and keys", "more time and memory", OmittedEffect::small});
  }
}

/// Leaves out what is not modelled beside latent attention.
void read_beside_latents(MegatronArguments& arguments, ModelConfig& model) {
  model.position_rows.reset();
  if (!model.biases) return;
  arguments.refuse("multi-latent-attention", "--disable-bias-linear beside it",
                   {"products without biases", "more time and memory", OmittedEffect::small});
  if (!arguments.is_strict()) model.biases = false;
}

void read_mlp(MegatronArguments& arguments, ModelConfig& model) {
  if (arguments.has("swiglu")) model.activation = Activation::swiglu;
  // MindSpeed-LLM has the others.
  for (std::string_view const flag : {"quick-geglu", "geglu", "gelu-tanh"}) {
    if (arguments.has(flag)) model.activation = Activation::geglu;
  }
  // bigscience-workshop/Megatron-DeepSpeed: megatron/model/glu_activations.py.
  if (auto const gated = arguments.text("glu-activation")) {
    model.activation = *gated == "swiglu" ? Activation::swiglu : Activation::geglu;
    if (*gated != "swiglu" && *gated != "geglu") {
      arguments.refuse(
          "glu-activation", "swiglu, geglu",
          {"geglu, with the same matrix products", "either way in time", OmittedEffect::small});
    }
  }
  double const offset = arguments.number("glu-linear-offset", {-1e9, 1e9}).value_or(0);
  auto const clamp = arguments.number("activation-func-clamp-value", {1e-9, 1e9});
  if (model.activation == Activation::geglu && offset == 1 && clamp == 7) {
    model.activation = Activation::swiglu_clamped;
  } else if (offset != 0 || clamp) {
    arguments.refuse(offset != 0 ? "glu-linear-offset" : "activation-func-clamp-value",
                     "--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0, or "
                     "none of the last two",
                     {"an activation without offset and limit", "more time", OmittedEffect::small});
  }
  if (arguments.has("squared-relu")) {
    model.activation = Activation::relu;
    arguments.refuse("squared-relu", "a run without it",
                     {"a ReLU, with the same matrix products", "more time and memory"});
  }
  // arguments.py: a gated MLP is narrower, so that it has about the same number of parameters.
  std::int64_t const fallback = arguments.has("swiglu")
                                    ? std::max<std::int64_t>(64, model.hidden * 8 / 3 / 64 * 64)
                                    : 4 * model.hidden;
  auto const given = arguments.integer("ffn-hidden-size", {1, 1 << 26});
  model.ffn_hidden = given.value_or(fallback);
  if (!given && arguments.has("swiglu")) {
    arguments.note("--ffn-hidden-size left out: with --swiglu Megatron-LM takes " +
                   std::to_string(fallback));
  }
}

void read_vocabulary(MegatronArguments& arguments, ModelConfig& model) {
  IntegerRange const range{0, std::int64_t{1} << 31};
  // Pai-Megatron-Patch builds its own tokenizer in place of Megatron-LM's.
  std::string const tokenizer =
      arguments.text("patch-tokenizer-type")
          .value_or(arguments.text("tokenizer-type").value_or("GPT2BPETokenizer"));
  auto const multiple = arguments.integer("make-vocab-size-divisible-by", {1, 1 << 20});
  model.vocabulary_multiple = arguments.has("no-pad-vocab-size") ? 1 : multiple.value_or(128);
  auto const padded = arguments.integer("padded-vocab-size", range);
  auto const given = arguments.integer("vocab-size", range);
  if (padded) {
    model.vocabulary = *padded;
    model.vocabulary_multiple = 1;
  } else if (given) {
    // tokenizer.py: NullTokenizer adds a token that ends documents.
    model.vocabulary = *given + (tokenizer == "NullTokenizer" ? 1 : 0);
  } else if (arguments.has("padded-vocab-size") || arguments.has("vocab-size")) {
    model.vocabulary = 1;  // reported
  } else if (tokenizer == "GPT2BPETokenizer") {
    model.vocabulary = gpt2_vocabulary;
    arguments.note("vocabulary 50257, that of GPT2BPETokenizer with GPT-2's files");
  } else {
    model.vocabulary = 1;
    arguments.report("vocab-size",
                     "the number of tokens of " + printable(tokenizer) +
                         ", which no flag says: --vocab-size N beside the others, or behind "
                         "`--` at the end of this command: -- --vocab-size N");
  }
}

void read_positions(MegatronArguments& arguments, ModelConfig& model) {
  std::string const type =
      arguments.text("position-embedding-type")
          .value_or(arguments.has("use-rotary-position-embeddings") ? "rope" : "learned_absolute");
  auto const rows = arguments.integer("max-position-embeddings", widths);
  bool const is_learned = type == "learned_absolute" || type == "absolute";
  // yarn and mrope turn queries and keys by other angles.
  constexpr std::array<std::string_view, 4> rotary{"rope", "rotary", "yarn", "mrope"};
  if (!is_learned && std::ranges::find(rotary, type) == rotary.end()) {
    bool const is_none = type == "none";
    arguments.refuse("position-embedding-type", "learned_absolute, rope",
                     {"rotary positions, which have no parameters",
                      is_none ? "less time" : "more time and memory",
                      is_none ? OmittedEffect::small : OmittedEffect::large});
  }
  model.positions = is_learned && !arguments.has("use-rotary-position-embeddings")
                        ? Positions::learned
                        : Positions::rotary;
  model.rotary_base = arguments.number("rotary-base", {1, 1e12}).value_or(10000);
  double const factor = arguments.number("rope-scaling-factor", {1, 1e6}).value_or(8);
  if (arguments.has("use-rope-scaling")) model.rotary_scaling = factor;
  if (model.positions == Positions::rotary) return;
  std::string const accepted =
      "at least --seq-length" +
      (model.sequence > 0 ? " (" + std::to_string(model.sequence) + ")" : std::string{});
  if (!rows) {
    if (!arguments.has("max-position-embeddings")) {
      arguments.report("max-position-embeddings", accepted);
    }
  } else if (*rows < model.sequence) {
    arguments.report("max-position-embeddings", accepted);
  } else {
    model.position_rows = *rows;
  }
}

/// Flags of MindSpeed-LLM, whose scripts have one of them.
constexpr std::array<std::string_view, 4> flags_of_mindspeed{
    "use-fused-rmsnorm", "use-fused-swiglu", "use-fused-rotary-pos-emb", "tokenizer-name-or-path"};

void read_attention(MegatronArguments& arguments, MegatronVersion version, ModelConfig& model) {
  std::string const backend = arguments.text("attention-backend").value_or("auto");
  bool const is_named = backend != "auto" || arguments.has("use-flash-attn");
  if (is_local_megatron(arguments, version)) {
    // Megatron-Core's own layers have unfused attention alone; MindSpeed's run what the flag says.
    bool const is_named_flash = arguments.has("use-flash-attn");
    bool const is_mindspeed = std::ranges::any_of(
        flags_of_mindspeed, [&](std::string_view flag) { return arguments.has(flag); });
    model.attention = is_named_flash && is_mindspeed ? Attention::flash : Attention::unfused;
    if (is_named_flash && !is_mindspeed) {
      arguments.note(
          "--use-flash-attn left out: Megatron-Core's local layers do not read it, and have "
          "unfused "
          "attention");
    }
    return;
  }
  if (backend == "flash" || backend == "fused" || arguments.has("use-flash-attn")) {
    model.attention = Attention::flash;
  } else if (backend == "unfused" || backend == "local") {
    model.attention = Attention::unfused;
  } else if (backend == "auto") {
    model.attention = version == MegatronVersion::current ? Attention::flash : Attention::unfused;
  } else {
    arguments.report("attention-backend", "flash, fused, unfused, local, auto");
  }
  if (!is_named) {
    arguments.note(model.attention == Attention::flash
                       ? "no flag of attention: flash (--attention-backend unfused otherwise)"
                       : "no flag of attention: unfused, as in 2022 (--use-flash-attn otherwise)");
  }
}

void read_precision(MegatronArguments& arguments, ModelConfig& model) {
  bool const is_half = arguments.has("fp16");
  bool const is_brain = arguments.has("bf16");
  if (is_half && is_brain) arguments.report("fp16", "--fp16 or --bf16, not both");
  model.precision = is_brain ? Precision::bf16 : is_half ? Precision::fp16 : Precision::fp32;
}

}  // namespace

bool is_local_megatron(MegatronArguments& arguments, MegatronVersion version) {
  std::string const modules = arguments.text("transformer-impl").value_or("");
  return version == MegatronVersion::current && modules == "local";
}

void read_megatron_model(MegatronArguments& arguments,
                         MegatronVersion version,
                         ModelConfig& model) {
  read_shape(arguments, model);
  read_mlp(arguments, model);
  read_vocabulary(arguments, model);
  read_positions(arguments, model);
  read_attention(arguments, version, model);
  read_megatron_sinks(arguments, model);
  read_precision(arguments, model);
  // Megatron-DeepSpeed writes the names in lower case.
  std::string const norm = arguments.text("normalization").value_or("LayerNorm");
  if (norm == "RMSNorm" || norm == "rmsnorm" || arguments.has("RMSNorm")) {
    model.norm = Norm::rmsnorm;
  } else if (norm != "LayerNorm" && norm != "layernorm") {
    arguments.report("normalization", "LayerNorm, RMSNorm");
  }
  if (arguments.has("multi-latent-attention")) read_latents(arguments, model);
  read_qk_norms(arguments, model);
  if (arguments.has("post-norm")) model.norms = NormPlaces::both;
  FlagReader reader{arguments};
  visit_keys(reader, model);
  model.qkv_bias = !model.biases && arguments.has("add-qkv-bias");
  if (has_latents(model)) read_beside_latents(arguments, model);
}

}  // namespace stagecraft
