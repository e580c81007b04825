#include "libsim/import/megatron/megatron_gaps.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "libsim/config/key.hpp"
#include "libsim/import/layer_windows.hpp"
#include "libsim/import/megatron/megatron_experts.hpp"
#include "libsim/import/megatron/megatron_model.hpp"
#include "libsim/training/training_keys.hpp"

namespace stagecraft {
namespace {

/// Collects the gaps that the descriptors of a section's keys name; without a section, those of the
/// run's keys outside of sections. Searches ask for those of each plan, so that texts are made only
/// of what is there.
class KeyGaps : public KeyVisitor<KeyGaps> {
 public:
  KeyGaps(std::vector<std::string>& gaps, std::string_view section, KeyGaps const* outer = nullptr)
      : gaps_{gaps}, section_{section}, outer_{outer} {}

  template <typename Field>
  void key(Key const& key, Field const& field) {
    if constexpr (is_optional<Field>) {
      if (field) this->key(key, *field);
    } else if constexpr (HasKeys<Field const, KeyGaps>) {
      if (section_.empty()) return;
      KeyGaps below{gaps_, key.name, this};
      visit_keys(below, field);
    } else if (!key.gap.instead.empty() && is_there(key.gap.word, field)) {
      std::string const word{key.gap.word};
      gaps_.push_back(path() + std::string{key.name} + (word.empty() ? "" : " " + word) + ": " +
                      std::string{key.gap.instead});
    }
  }

 private:
  template <typename Field>
  static bool is_there(std::string_view word, Field const& field) {
    if constexpr (NamedEnum<Field>) {
      return word.empty() ? field != EnumNames<Field>::all.front().first : name_of(field) == word;
    } else if constexpr (requires { field.value; }) {  // a cap
      return field.value > 0;
    } else if constexpr (std::same_as<Field, bool>) {
      return field == (word == "true");
    } else if constexpr (std::is_arithmetic_v<Field>) {
      return field != Field{};
    } else {
      throw std::logic_error{"a key that Megatron-LM does not have is of a type without a default"};
    }
  }
  std::string path() const {
    if (section_.empty()) return {};
    return (outer_ == nullptr ? "" : outer_->path()) + std::string{section_} + ".";
  }

  std::vector<std::string>& gaps_;
  std::string_view section_;
  KeyGaps const* outer_;
};

/// Collects the gaps of one run.
class Gaps {
 public:
  Gaps(TrainingConfig const& config, MegatronVersion version)
      : config_{config}, is_of_2022_{version == MegatronVersion::of_2022} {}

  std::vector<std::string> run() {
    add_of_model();
    if (is_of_2022_) {
      add_of_model_in_2022();
      add_of_layout_in_2022();
    } else {
      add_of_current();
    }
    add_of_schedule();
    add_of_recompute();
    bool const is_sharded = config_.sharding.shares_optimizer();
    gap(!config_.sharding.traits().is_in_megatron(),
        "sharding: Megatron-LM's are distributed_optimizer, which shares the optimizer's state "
        "alone, and megatron_fsdp");
    add_of_fsdp();
    gap(is_of_2022_ && config_.low_precision.recipe != Recipe::none,
        "low_precision: Megatron-LM of 2022 has no products in 8 or 4 bits");
    gap(config_.low_precision.dispatch == LowOrHigh::low,
        "low_precision.dispatch: Megatron-LM sends tokens in 16 bits");
    gap(config_.low_precision.implementation != LowLibrary::transformer_engine,
        "low_precision.implementation: Megatron-LM quantises with Transformer Engine");
    gap(is_of_2022_ && (config_.memory.gradient_dtype != StateType::fp32 ||
                        config_.memory.moments_dtype != StateType::fp32),
        "memory.gradient_dtype, memory.moments_dtype: Megatron-LM of 2022 keeps 32 bits");
    gap(config_.offload.optimizer > 0, "offload.optimizer: its flags are not written");
    gap(is_of_2022_ && config_.offload.activations != ActivationOffload{},
        "offload.activations: Megatron-LM of 2022 offloads nothing");
    gap(config_.parallel.context > 1 && is_of_2022_,
        "parallel.context: Megatron-LM of 2022 has no context parallelism");
    gap(config_.parallel.context > 1 && !is_of_2022_ &&
            config_.parallel.context_method == ContextMethod::ulysses,
        "parallel.context_method ulysses: Megatron-LM's ranks have two chunks of rows, which takes "
        "a "
        "copy more per exchange");
    gap(config_.parallel.context > 1 && !is_of_2022_ &&
            config_.parallel.context_method == ContextMethod::contiguous_ring,
        "parallel.context_method contiguous_ring: Megatron-LM's ranks have two chunks of rows, so "
        "that they attend to as many keys");
    add_of_keys("", config_);
    add_of_keys("memory", MemorySection{config_.memory, is_sharded});
    add_of_keys("parallel", config_.parallel);
    add_of_keys("batch", config_.batch);
    add_of_keys("schedule", config_.schedule);
    add_of_keys("training", config_.training);
    return std::move(gaps_);
  }

 private:
  void add_of_fsdp() {
    Sharding said = config_.sharding;
    if (said.kind != ShardingKind::megatron_fsdp) return;
    gap(is_of_2022_, "sharding megatron_fsdp: Megatron-LM of 2022 has no such sharding");
    Sharding const usual = default_sharding(said.kind);
    said.strategy = usual.strategy;
    said.generation = usual.generation;
    said.reduce_dtype = usual.reduce_dtype;
    gap(said != usual,
        "sharding: of megatron_fsdp the flags say strategy, generation and reduce_dtype");
  }

  /// Adds what the descriptors of a section's keys say.
  template <typename Section>
  void add_of_keys(std::string_view name, Section const& section) {
    KeyGaps keys{gaps_, name};
    visit_keys(keys, section);
  }

  void gap(bool is_there, std::string_view text) {
    if (is_there) gaps_.emplace_back(text);
  }

  void add_of_model() {
    ModelConfig const& model = config_.model;
    gap(!find_windows(model), "model.pattern: the flags say layers of one kind");
    add_of_keys("model", model);
    gap(model.dropout_mask == DropoutMask::regenerated,
        "model.dropout_mask regenerated: Megatron-LM stores masks");
    gap(model.experts && model.experts->fused_weighting != fuses_weighting(model.activation),
        "model.experts.fused_weighting: Megatron-LM multiplies SwiGLU with probabilities in its "
        "kernel, and other activations in one of their own");
    gap(model.softmax_dropout == SoftmaxDropout::fused,
        "model.softmax_dropout fused: Megatron-LM's softmax and dropout are two kernels");
  }

  void add_of_model_in_2022() {
    ModelConfig const& model = config_.model;
    gap(model.vocabulary != gpt2_vocabulary,
        "model.vocabulary: in 2022 the tokenizer's files say it; the flags name GPT-2's, with "
        "50257 tokens");
    gap(model.positions != Positions::learned,
        "model.positions rotary: Megatron-LM of 2022 has learned positions");
    gap(model.norm != Norm::layernorm, "model.norm rmsnorm: Megatron-LM of 2022 has LayerNorm");
    gap(is_gated(model.activation), "model.activation: Megatron-LM of 2022 has GELU");
    gap(model.kv_heads != model.heads, "model.kv_heads: Megatron-LM of 2022 has as many as heads");
    gap(model.qk_norm == QkNorm::head,
        "model.qk_norm: Megatron-LM of 2022 has no norms of queries and keys");
    gap(model.experts.has_value(), "model.experts: Megatron-LM of 2022 has none");
    gap(model.predicted_tokens > 0, "model.predicted_tokens: Megatron-LM of 2022 has none");
    gap(model.window > 0 || !model.pattern.empty(),
        "model.window: Megatron-LM of 2022 attends to all tokens before");
    gap(model.sinks, "model.sinks: Megatron-LM of 2022 has none");
    gap(has_latents(model), "model.latent_attention: Megatron-LM of 2022 has none");
    gap(!model.biases, "model.biases false: Megatron-LM of 2022 has biases");
    gap(!model.tied_embeddings,
        "model.tied_embeddings false: Megatron-LM of 2022 ties embedding and head");
    gap(model.attention == Attention::flash,
        "model.attention flash: Megatron-LM of 2022 has unfused attention");
    gap(model.causal_mask == CausalMask::none,
        "model.causal_mask none: Megatron-LM of 2022 makes one per microbatch");
  }

  void add_of_layout_in_2022() {
    ParallelLayout const& parallel = config_.parallel;
    ScheduleConfig const& schedule = config_.schedule;
    bool const is_interleaved = parallel.interleave > 1;
    gap(config_.layout.kind != LayerSplit::Kind::even,
        "layout: Megatron-LM of 2022 gives every stage as many layers");
    gap(is_interleaved && parallel.pipeline == 2,
        "parallel.interleave: Megatron-LM of 2022 refuses it with two stages");
    gap(is_interleaved && schedule.group != 0 && schedule.group != parallel.pipeline,
        "schedule.group: Megatron-LM of 2022 takes as many microbatches as stages");
    gap(schedule.p2p == P2p::overlapped && parallel.pipeline > 1,
        "schedule.p2p overlapped: Megatron-LM of 2022 has blocking transfers");
    gap(overlaps_gradients(config_),
        "parallel.overlap_gradients: Megatron-LM of 2022 reduces gradients after the last "
        "backward");
  }

  void add_of_current() {
    ModelConfig const& model = config_.model;
    ParallelLayout const& parallel = config_.parallel;
    ScheduleConfig const& schedule = config_.schedule;
    bool const is_interleaved = parallel.interleave > 1;
    if (model.experts) add_of_experts(*model.experts);
    gap(model.activation == Activation::geglu,
        "model.activation geglu: the flags say a gated quick GELU, which keeps and costs the same");
    gap(model.qk_norm == QkNorm::head && model.norm == Norm::layernorm,
        "model.qk_norm: with LayerNorm, Megatron-LM's norms of queries and keys subtract means");
    gap(model.positions == Positions::rotary && model.rotary_base != std::floor(model.rotary_base),
        "model.rotary_base: Megatron-LM takes whole numbers");
    // gpt_builders.py passes --use-rope-scaling on, but not --rope-scaling-factor.
    gap(model.rotary_scaling != 1 && model.rotary_scaling != 8,
        "model.rotary_scaling: Megatron-LM's factor is 8, whatever --rope-scaling-factor says");
    gap(schedule.p2p == P2p::overlapped && !is_interleaved,
        "schedule.p2p overlapped: Megatron-LM overlaps only transfers of interleaved schedules");
    gap(schedule.p2p == P2p::blocking && is_interleaved && parallel.pipeline == 2,
        "schedule.p2p blocking: Megatron-LM refuses it if two stages interleave");
    gap(schedule.scatter_gather && !parallel.sequence && parallel.tensor > 1 &&
            parallel.pipeline > 1,
        "schedule.scatter_gather: the current Megatron-LM sends whole messages");
    gap(config_.layout.kind == LayerSplit::Kind::list && is_interleaved &&
            config_.layout.list.size() == static_cast<std::size_t>(parallel.pipeline),
        "layout: a list of stages is written as one of virtual stages");
    std::int64_t const own = megatron_bucket_elements(parallel.data * parallel.context);
    gap(overlaps_gradients(config_) && bucket_elements(config_) != 0 &&
            bucket_elements(config_) != own,
        "parallel.gradient_bucket: the flags say buckets of Megatron-LM's own size, which is " +
            std::to_string(own) + " elements here");
  }

  void add_of_experts(ExpertsConfig const& experts) {
    RouterConfig const& router = experts.router;
    bool const is_before = router.order == RouterOrder::before;
    if (router.score == RouterScore::softmax) {
      gap(is_before && router.normalise,
          "model.experts.router.order before, normalised: the flags say after, which gives the "
          "same probabilities");
      gap(!is_before && !router.normalise,
          "model.experts.router.normalise false: the flags say probabilities that add up to 1");
    } else {
      gap(!router.normalise || is_before,
          "model.experts.router: the flags say scores that are divided by their sum");
    }
    gap(config_.routing.factor.value_or(1) != 1,
        "routing.factor: no flag says how uneven the router is");
    gap(static_cast<bool>(config_.routing.counts),
        "routing.file: no flag says which experts tokens choose");
    gap(config_.routing.capacity && config_.routing.is_of_microbatch,
        "routing.scope microbatch: the flags say capacities of each rank's tokens");
    gap(config_.routing.is_natural,
        "routing natural: the flags say dropless routing, which reads back as balanced");
    gap(experts.biases != config_.model.biases,
        "model.experts.biases: the flags say those of model.biases");
    gap(experts.biases && experts.shared_ffn_hidden > 0,
        "model.experts.shared_ffn_hidden: Megatron-LM's shared experts have no biases");
    gap(experts.first_dense > 0 && experts.every > 1,
        "model.experts.first_dense beside every: the flags read back as other keys");
  }

  void add_of_schedule() {
    ScheduleKind const kind = config_.schedule.kind;
    bool const is_known = kind == ScheduleKind::one_f_one_b || kind == ScheduleKind::interleaved;
    if (!is_known) {
      gap(true, "schedule " + std::string{name_of(kind)} + ": the flags say " +
                    std::string{config_.parallel.interleave > 1 ? "interleaved" : "1f1b"});
    }
    gap(kind == ScheduleKind::interleaved && config_.parallel.interleave == 1,
        "schedule interleaved with one chunk: the flags say 1f1b");
  }

  void add_of_recompute() {
    std::vector<RecomputePolicy> const& policies = config_.recompute;
    gap(policies.size() > 1, "recompute per stage: the flags say what stage 0 does");
    RecomputePolicy const& policy = policies.front();
    gap(policy.store_microbatches.automatic || policy.store_microbatches.count > 0,
        "recompute.store_microbatches: Megatron-LM has no window that works");
    add_of_keys("recompute", policy);
    gap(is_of_2022_ && policy.granularity == RecomputeGranularity::selective &&
            policy.modules != RecomputePolicy{}.modules,
        "recompute.modules: Megatron-LM of 2022 recomputes the core of attention");
  }

  TrainingConfig const& config_;
  bool is_of_2022_;
  std::vector<std::string> gaps_;
};

/// The run on one rank, without anything that a search chooses.
TrainingConfig without_choices(TrainingConfig config) {
  std::optional<bool> const overlap = config.parallel.overlap_gradients;
  config.parallel = ParallelLayout{};
  config.parallel.overlap_gradients = overlap;
  config.schedule = ScheduleConfig{};
  config.recompute = {RecomputePolicy{}};
  config.layout = LayerSplit{};
  // A search chooses the kind; that of Megatron-LM is none of its gaps.
  ShardingTraits const& kind = config.sharding.traits();
  if (!kind.is_in_megatron() || kind.has_units()) config.sharding = Sharding{};
  return config;
}

}  // namespace

std::vector<std::string> megatron_gaps(TrainingConfig const& config, MegatronVersion version) {
  return Gaps{config, version}.run();
}

std::vector<std::string> megatron_gaps_of_model(TrainingConfig const& config,
                                                MegatronVersion version) {
  return megatron_gaps(without_choices(config), version);
}

std::string take_megatron_order(TrainingConfig& config) {
  if (!config.model.experts) return {};
  RouterConfig& router = config.model.experts->router;
  bool const is_same = router.score == RouterScore::softmax && router.normalise;
  if (!is_same || router.order == RouterOrder::after) return {};
  router.order = RouterOrder::after;
  return "model.experts.router.order is after, as Megatron-LM has it, not before: normalised, the "
         "probabilities are the same";
}

}  // namespace stagecraft
