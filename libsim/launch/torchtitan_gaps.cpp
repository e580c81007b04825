#include "libsim/launch/torchtitan_gaps.hpp"

#include <algorithm>
#include <string_view>

#include "libsim/launch/llama_gaps.hpp"
#include "libsim/plan/units/unit_types.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

/// Collects the gaps of one run.
class TorchtitanGaps {
 public:
  explicit TorchtitanGaps(TrainingConfig const& config)
      : config_{config}, gaps_{torchtitan_gaps_of_model(config)} {}

  void add_of_layout() {
    ParallelLayout const& layout = config_.parallel;
    Sharding const& sharding = config_.sharding;
    gap(sharding.kind != ShardingKind::fsdp2, "sharding: torchtitan's is fsdp2");
    gap(layout.pipeline > 1, "parallel.pipeline: not written for torchtitan");
    gap(layout.tensor > 1 && !layout.sequence,
        "parallel.sequence: torchtitan splits sequences with tensor parallelism");
    gap(layout.context > 1 && layout.context_method != ContextMethod::ring &&
            layout.context_method != ContextMethod::all_gather,
        "parallel.context_method: torchtitan gathers keys and values, or passes them round a ring");
    gap(sharding.sync == UnitSync::last && microbatches(config_) > 1,
        "sharding.sync last: torchtitan reduces in every microbatch");
    UnitTypes const types = unit_types(config_);
    gap(types.stored != ElementType::f32 || types.reduced != ElementType::f32,
        "sharding.stored_dtype, sharding.reduce_dtype: torchtitan's are fp32");
    bool const is_low = config_.low_precision.recipe != Recipe::none;
    gap(is_low && config_.low_precision.implementation != LowLibrary::torchao,
        "low_precision.implementation: torchtitan quantises with torchao");
    add_of_recompute();
  }

  std::vector<std::string> take() { return std::move(gaps_); }

 private:
  void gap(bool is_there, std::string_view text) {
    if (is_there) gaps_.emplace_back(text);
  }

  void add_of_recompute() {
    RecomputePolicy const& policy = config_.recompute.front();
    bool const is_full = policy.granularity == RecomputeGranularity::full;
    gap(policy.granularity == RecomputeGranularity::selective,
        "recompute selective: torchtitan chooses single ops, or layers");
    gap(is_full && policy.method == RecomputeMethod::block && checkpointed_every(config_) == 0,
        "recompute.layers: torchtitan checkpoints every layer, every second, third ...");
    gap(policy.store_microbatches.automatic || policy.store_microbatches.count > 0,
        "recompute.store_microbatches: torchtitan's microbatches are alike");
  }

  TrainingConfig const& config_;
  std::vector<std::string> gaps_;
};

}  // namespace

int checkpointed_every(TrainingConfig const& config) {
  int const wanted = config.recompute.front().layers;
  auto const layers = static_cast<int>(config.model.layers);
  for (int every = 2; every <= layers; ++every) {
    if (layers / every == wanted) return every;
  }
  return 0;
}

std::vector<std::string> torchtitan_gaps(TrainingConfig const& config) {
  TorchtitanGaps gaps{config};
  gaps.add_of_layout();
  return gaps.take();
}

std::vector<std::string> torchtitan_gaps_of_model(TrainingConfig const& config) {
  return llama_gaps(config.model, {.owner = "torchtitan"});
}

}  // namespace stagecraft
