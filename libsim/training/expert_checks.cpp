#include "libsim/training/expert_checks.hpp"

#include <string>
#include <string_view>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/combination_check.hpp"
#include "libsim/training/routing_check.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {
namespace {

/// Checks what holds between experts, their router and the layout of ranks. The layout is checked
/// once, keys of experts for every kind of layer that has them. It says nothing of values that have
/// a problem of their own.
class ExpertCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check() const {
    if (!sound({"model", "parallel"})) return;
    bool has_experts = false;
    for (LayerRun const& run : layer_runs(config_.model)) {
      if (!run.kind.experts) continue;
      if (!has_experts) check_layout();
      has_experts = true;
      check_kind(*run.kind.experts);
      check_biases(*run.kind.experts);
      check_loss(run.kind.experts->router);
      check_layer(run.kind);
    }
    if (has_experts) return check_routing(config_, root_);
    if (!config_.routing.is_balanced() && sound({"routing"})) {
      refuse("routing", "", "balanced, as the model has no experts");
    }
    refuse_without_experts("parallel.expert", config_.parallel.expert);
    refuse_without_experts("parallel.expert_tensor", config_.parallel.expert_tensor);
  }

 private:
  void refuse_without_experts(std::string_view key, int ranks) const {
    if (ranks > 1) refuse(key, ranks, "1, as the model has no experts");
  }

  /// The dotted key of the experts' `key`, in the section where the model has them.
  std::string key_of(std::string_view key) const {
    bool const is_of_model = root_.child("model").child("experts").exists();
    return is_of_model || config_.model.pattern.empty() ? "model.experts." + std::string{key}
                                                        : "model.pattern";
  }

  void check_layout() const {
    ParallelLayout const& parallel = config_.parallel;
    std::int64_t const t = parallel.tensor;
    if (t > 1 && !parallel.sequence) {
      refuse("parallel.sequence", "false",
             "true, as the model has experts and parallel.tensor is " + to_text(t));
    }
    std::int64_t const together = std::int64_t{parallel.expert} * parallel.expert_tensor;
    std::int64_t const ranks = t * parallel.context * parallel.data;
    if (ranks % together == 0) return;
    refuse("parallel.expert", parallel.expert,
           "a number whose product with parallel.expert_tensor (" +
               to_text(parallel.expert_tensor) + ") divides tensor x context x data (" +
               to_text(ranks) + ")");
  }

  void check_kind(ExpertsConfig const& experts) const {
    ParallelLayout const& parallel = config_.parallel;
    if (experts.count % parallel.expert != 0) {
      refuse("parallel.expert", parallel.expert,
             "a divisor of model.experts.count (" + to_text(experts.count) + ")");
    }
    if (experts.ffn_hidden % parallel.expert_tensor != 0) {
      refuse("parallel.expert_tensor", parallel.expert_tensor,
             "a divisor of model.experts.ffn_hidden (" + to_text(experts.ffn_hidden) + ")");
    }
    if (experts.shared_ffn_hidden % parallel.tensor != 0) {
      refuse("parallel.tensor", parallel.tensor,
             "a divisor of model.experts.shared_ffn_hidden (" + to_text(experts.shared_ffn_hidden) +
                 ")");
    }
    if (!config_.routing.is_balanced() || !sound({"routing"})) return;
    if (!sound({"batch.micro"}) || may_be_balanced(config_, experts)) return;
    refuse(key_of("count"), experts.count,
           "with balanced routing, a divisor of the " + to_text(choices_of_rank(config_, experts)) +
               " choices that the tokens of a rank make (batch.micro x model.sequence / "
               "(parallel.tensor x parallel.context) x per_token)");
  }

  /// A router counts the choices that it makes itself: with two copies of a layer, each would count
  /// only half of the microbatches of the global batch.
  void check_loss(RouterConfig const& router) const {
    if (!router.counts_over_batch() || !sound({"schedule"})) return;
    if (placement_of(config_).copies() == 1) return;
    refuse(key_of("router.loss"), name_of(router.loss),
           "none, auxiliary or sequence_auxiliary, as schedule is " +
               std::string{name_of(config_.schedule.kind)} + ", which has two copies of the model");
  }

  void check_layer(LayerConfig const& kind) const {
    if (kind.norms != NormPlaces::pre) {
      refuse("model.norms", name_of(kind.norms), "pre, as the model has experts");
    }
  }

  /// Source: Megatron-LM, transformer_config.py: "Bias in Moe is only supported when ETP==1".
  void check_biases(ExpertsConfig const& experts) const {
    if (!experts.biases || config_.parallel.expert_tensor == 1) return;
    refuse("parallel.expert_tensor", config_.parallel.expert_tensor,
           "1, as model.experts.biases is true, as in Megatron-Core");
  }
};

}  // namespace

void check_experts(TrainingConfig const& config, ConfigNode const& root) {
  ExpertCheck{config, root}.check();
}

}  // namespace stagecraft
