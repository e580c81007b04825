#include "libsim/import/megatron_flags.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <string_view>

#include "libsim/import/pipeline_layout.hpp"
#include "libsim/model/recompute_regions.hpp"
#include "libsim/plan/layer_split.hpp"

namespace stagecraft {
namespace {

class FlagLine {
 public:
  FlagLine& flag(std::string_view name, bool is_set = true) {
    if (is_set) text_ += (text_.empty() ? "--" : " --") + std::string{name};
    return *this;
  }
  FlagLine& value(std::string_view name, std::string_view text) {
    flag(name);
    text_ += ' ';
    text_ += text;
    return *this;
  }
  template <std::integral Integer>
  FlagLine& value(std::string_view name, Integer number) {
    return value(name, std::string_view{std::to_string(number)});
  }
  /// Writes the shortest text that reads back as the same number.
  FlagLine& value(std::string_view name, double number) {
    std::array<char, 32> digits{};
    auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return value(name,
                 std::string_view{digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  std::string const& text() const { return text_; }

 private:
  std::string text_;
};

void write_model(FlagLine& line, ModelConfig const& model) {
  line.value("num-layers", model.layers)
      .value("hidden-size", model.hidden)
      .value("ffn-hidden-size", model.ffn_hidden)
      .value("num-attention-heads", model.heads);
  if (model.head_dim * model.heads != model.hidden) line.value("kv-channels", model.head_dim);
  if (model.kv_heads != model.heads) {
    line.flag("group-query-attention").value("num-query-groups", model.kv_heads);
  }
  bool const is_rotary = model.positions == Positions::rotary;
  line.value("seq-length", model.sequence)
      .value("max-position-embeddings", is_rotary ? model.sequence : position_rows(model))
      .value("position-embedding-type", is_rotary ? "rope" : "learned_absolute");
  if (is_rotary) {
    // Megatron-LM accepts only a whole number here.
    bool const is_whole = model.rotary_base == std::floor(model.rotary_base);
    if (is_whole) {
      line.value("rotary-base", static_cast<std::int64_t>(model.rotary_base));
    } else {
      line.value("rotary-base", model.rotary_base);
    }
  }
  // NullTokenizer has one token more than it is told, the one that ends documents.
  line.value("tokenizer-type", "NullTokenizer")
      .value("vocab-size", model.vocabulary - 1)
      .value("make-vocab-size-divisible-by", model.vocabulary_multiple)
      .value("normalization", model.norm == Norm::rmsnorm ? "RMSNorm" : "LayerNorm")
      .value("norm-epsilon", model.norm_epsilon)
      .flag("swiglu", model.activation == Activation::swiglu)
      .flag("quick-geglu", model.activation == Activation::geglu)
      .flag("disable-bias-linear", !model.biases)
      .flag("add-qkv-bias", model.qkv_bias && !model.biases)
      .flag("untie-embeddings-and-output-weights", !model.tied_embeddings)
      .value("hidden-dropout", model.dropout)
      .value("attention-dropout", attention_dropout(model))
      .value("attention-backend", model.attention == Attention::flash ? "flash" : "unfused")
      .flag("no-create-attention-mask-in-dataloader", model.causal_mask == CausalMask::none)
      .flag("fp16", model.precision == Precision::fp16)
      .flag("bf16", model.precision == Precision::bf16)
      .flag("accumulate-allreduce-grads-in-fp32",
            model.precision == Precision::fp16 || model.precision == Precision::bf16);
}

void write_layout(FlagLine& line, TrainingConfig const& config) {
  ParallelLayout const& parallel = config.parallel;
  LayerSplit const& layout = config.layout;
  line.value("tensor-model-parallel-size", parallel.tensor)
      .value("pipeline-model-parallel-size", parallel.pipeline);
  bool const is_list = layout.kind == LayerSplit::Kind::list;
  if (is_list) {
    line.value("pipeline-model-parallel-layout", pipeline_layout(layers_of_virtual_stages(config)));
  } else if (parallel.interleave > 1) {
    line.value("num-virtual-stages-per-pipeline-rank", parallel.interleave);
  }
  if (layout.first) line.value("decoder-first-pipeline-num-layers", *layout.first);
  if (layout.last) line.value("decoder-last-pipeline-num-layers", *layout.last);
  if (parallel.interleave > 1) {
    if (config.schedule.group != 0 && config.schedule.group != parallel.pipeline) {
      line.value("microbatch-group-size-per-virtual-pipeline-stage", config.schedule.group);
    }
    line.flag("no-overlap-p2p-communication", config.schedule.p2p == P2p::blocking);
  }
  line.flag("sequence-parallel", parallel.sequence && parallel.tensor > 1)
      .flag("use-distributed-optimizer", config.memory.distributed_optimizer)
      .flag("overlap-grad-reduce", overlaps_gradients(config));
}

void write_recompute(FlagLine& line, RecomputePolicy const& policy) {
  if (policy.granularity == RecomputeGranularity::none) return;
  if (policy.granularity == RecomputeGranularity::full) {
    line.value("recompute-granularity", "full")
        .value("recompute-method", policy.method == RecomputeMethod::block ? "block" : "uniform")
        .value("recompute-num-layers", policy.layers)
        .flag("distribute-saved-activations", policy.sharded_checkpoints);
    return;
  }
  std::string modules;
  for (std::string const& name : policy.modules) {
    modules += (modules.empty() ? "" : " ") + std::string{find_region(name)->megatron_name};
  }
  line.value("recompute-granularity", "selective").value("recompute-modules", modules);
}

void write_training(FlagLine& line, Hyperparameters const& training) {
  line.value("seed", training.seed)
      .value("init-method-std", training.init_std)
      .value("lr", training.learning_rate)
      .value("adam-beta1", training.beta1)
      .value("adam-beta2", training.beta2)
      .value("adam-eps", training.epsilon)
      .value("weight-decay", training.weight_decay)
      .value("clip-grad", training.clip)
      .value("initial-loss-scale", training.loss_scale);
}

}  // namespace

std::string megatron_flags(TrainingConfig const& config) {
  FlagLine line;
  write_model(line, config.model);
  write_layout(line, config);
  line.value("micro-batch-size", config.batch.micro)
      .value("global-batch-size", config.batch.global);
  write_recompute(line, config.recompute.front());
  write_training(line, config.training);
  return line.text();
}

std::vector<std::string> megatron_gaps(TrainingConfig const& config) {
  std::vector<std::string> gaps;
  auto const gap = [&](bool is_there, std::string_view text) {
    if (is_there) gaps.emplace_back(text);
  };
  ModelConfig const& model = config.model;
  ParallelLayout const& parallel = config.parallel;
  bool const is_interleaved = parallel.interleave > 1;
  gap(!model.pattern.empty(), "model.pattern: the flags say layers of one kind");
  gap(model.activation == Activation::relu, "model.activation relu: the flags say GELU");
  gap(model.activation == Activation::geglu,
      "model.activation geglu: the flags say a gated quick GELU, which keeps and costs the same");
  gap(model.residual != Residual::sequential,
      "model.residual: the flags say layers whose MLP follows their attention");
  gap(model.precision == Precision::fp64, "model.precision fp64: the flags say fp32");
  gap(model.dropout_mask == DropoutMask::regenerated,
      "model.dropout_mask regenerated: Megatron-LM stores masks");
  gap(model.softmax_dropout == SoftmaxDropout::fused,
      "model.softmax_dropout fused: Megatron-LM's softmax and dropout are two kernels");
  gap(model.positions == Positions::rotary && model.rotary_base != std::floor(model.rotary_base),
      "model.rotary_base: Megatron-LM takes whole numbers");
  gap(config.schedule.kind == ScheduleKind::gpipe, "schedule gpipe: the flags say 1f1b");
  gap(config.schedule.kind == ScheduleKind::interleaved && !is_interleaved,
      "schedule interleaved with one chunk: the flags say 1f1b");
  gap(config.schedule.p2p == P2p::overlapped && !is_interleaved,
      "schedule.p2p overlapped: Megatron-LM overlaps only transfers of interleaved schedules");
  gap(config.schedule.p2p == P2p::blocking && is_interleaved && parallel.pipeline == 2,
      "schedule.p2p blocking: Megatron-LM refuses it if two stages interleave");
  gap(config.schedule.scatter_gather && !parallel.sequence && parallel.tensor > 1 &&
          parallel.pipeline > 1,
      "schedule.scatter_gather: the current Megatron-LM sends whole messages");
  gap(config.recompute.size() > 1, "recompute per stage: the flags say what stage 0 does");
  RecomputePolicy const& policy = config.recompute.front();
  gap(policy.store_microbatches.automatic || policy.store_microbatches.count > 0,
      "recompute.store_microbatches: Megatron-LM has no window that works");
  gap(!config.memory.output_deallocation,
      "memory.output_deallocation false: Megatron-LM always deallocates");
  gap(config.layout.kind == LayerSplit::Kind::list && is_interleaved &&
          config.layout.list.size() == static_cast<std::size_t>(parallel.pipeline),
      "layout: a list of stages is written as one of virtual stages");
  return gaps;
}

}  // namespace stagecraft
