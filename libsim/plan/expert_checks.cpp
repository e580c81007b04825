#include "libsim/plan/expert_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "libsim/config/section_reader.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/combination_check.hpp"
#include "libsim/plan/training_names.hpp"

namespace stagecraft {
namespace {

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
      check_built(*run.kind.experts);
      check_layer(run.kind);
    }
    if (has_experts) return;
    if (!config_.routing.is_balanced() && sound({"routing"})) {
      refuse("routing", "a map", "balanced, as the model has no experts");
    }
    refuse_without_experts("parallel.expert", config_.parallel.expert);
    refuse_without_experts("parallel.expert_tensor", config_.parallel.expert_tensor);
  }

 private:
  void refuse_without_experts(std::string_view key, int ranks) const {
    if (ranks > 1) refuse(key, ranks, "1, as the model has no experts");
  }

  /// The node of a key of the experts, wherever the model has them.
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
               to_text(parallel.expert_tensor) + ") divides tensor x data (" + to_text(ranks) +
               ")");
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
    if (sound({"routing"})) check_routing(experts);
    if (config_.routing.capacity) return;  // rows are padded
    std::int64_t const split = parallel.sequence ? parallel.tensor : 1;
    if (!sound({"batch.micro"}) || config_.model.sequence % split != 0) return;
    std::int64_t const choices =
        config_.model.sequence / split * config_.batch.micro * experts.per_token;
    if (choices % experts.count == 0) return;
    refuse(key_of("count"), experts.count,
           "with balanced routing, a divisor of the " + to_text(choices) +
               " choices that the tokens of a rank make (batch.micro x model.sequence / "
               "parallel.tensor x per_token)");
  }

  void check_routing(ExpertsConfig const& experts) const {
    double const of_one =
        static_cast<double>(experts.count) / static_cast<double>(experts.per_token);
    double const of_rank = largest_routing_factor(experts, config_.parallel.expert);
    auto const check = [&](std::string const& key, double value, double most,
                           std::string_view what) {
      if (value <= most) return;
      refuse("routing." + key, "", fmt::format("a number up to {:g}, {}", most, what));
    };
    check("capacity", config_.routing.capacity.value_or(0), of_one,
          "model.experts.count / per_token");
    check("factor", config_.routing.factor.value_or(0), of_rank,
          "the smaller of parallel.expert and model.experts.count / per_token");
  }

  void check_layer(LayerConfig const& kind) const {
    if (kind.norms != NormPlaces::pre) {
      refuse("model.norms", name_of(kind.norms), "pre, as the model has experts");
    }
  }

  void check_dispatch(std::string const& not_yet) const {
    std::string_view const name = name_of(config_.dispatch);
    if (config_.dispatch == Dispatch::allgather) {
      refuse("dispatch", name, "alltoall, deepep" + not_yet);
    }
    if (config_.dispatch != Dispatch::deepep) return;
    auto const refuse_beside = [&](bool is_beside, std::string_view what) {
      if (is_beside) refuse("dispatch", name, "alltoall, " + std::string{what} + not_yet);
    };
    refuse_beside(config_.parallel.expert_tensor > 1, "as parallel.expert_tensor is above 1");
    refuse_beside(config_.routing.capacity.has_value(), "as routing has a capacity");
    refuse_beside(!config_.model.pattern.empty(), "as the model has a pattern");
  }

  /// Refuses what models can say and programs cannot do yet.
  void check_built(ExpertsConfig const& experts) const {
    std::string const not_yet = "; more is not built yet";
    RouterConfig const& router = experts.router;
    if (router.loss != RouterLoss::none) {
      refuse(key_of("router.loss"), name_of(router.loss), "none" + not_yet);
    }
    if (router.z_loss != 0) refuse(key_of("router.z_loss"), "a coefficient", "0" + not_yet);
    if (experts.biases && config_.parallel.expert_tensor > 1) {
      refuse("parallel.expert_tensor", config_.parallel.expert_tensor,
             "1, as model.experts.biases is true" + not_yet);
    }
    if (experts.shared_gate) refuse(key_of("shared_gate"), "true", "false" + not_yet);
    if (experts.probabilities_on != ProbabilitiesOn::output) {
      refuse(key_of("probabilities_on"), name_of(experts.probabilities_on), "output" + not_yet);
    }
    if (sound({"dispatch"})) check_dispatch(not_yet);
  }
};

/// A key of `routing` with one value that is built.
struct FixedKey {
  std::string_view key;
  std::string_view value;

  void check(ConfigNode const& node) const {
    if (node.exists() && !node.reads(value)) {
      node.report(std::string{value} + "; more is not built yet");
    }
  }
};
constexpr std::array fixed_keys{FixedKey{"pad", "true"}, FixedKey{"drop", "probabilities"},
                                FixedKey{"scope", "rank"}};

}  // namespace

double largest_routing_factor(ExpertsConfig const& experts, int ranks) {
  return std::min(static_cast<double>(ranks),
                  static_cast<double>(experts.count) / static_cast<double>(experts.per_token));
}

Routing read_routing(ConfigNode const& node) {
  Routing routing;
  if (!node.exists() || node.reads("balanced")) return routing;
  if (!node.is_map()) {
    node.report(
        "balanced, {factor: F} or {capacity: F}; counts from a file and natural routing are not "
        "built yet");
    return routing;
  }
  constexpr double most = 1e6;
  SectionReader reader{node};
  reader.number("factor", routing.factor, {1, most});
  reader.number("capacity", routing.capacity, {1e-6, most});
  if (routing.capacity) {
    for (FixedKey const& fixed : fixed_keys) fixed.check(reader.take(fixed.key));
  }
  reader.finish();
  if (!node.is_sound() || routing.factor.has_value() != routing.capacity.has_value()) {
    return routing;
  }
  node.report("one of the keys factor and capacity");
  return Routing{};
}

nlohmann::ordered_json to_json(Routing const& routing) {
  if (routing.is_balanced()) return "balanced";
  nlohmann::ordered_json json;
  if (routing.factor) json["factor"] = *routing.factor;
  if (!routing.capacity) return json;
  json["capacity"] = *routing.capacity;
  json["pad"] = true;
  json["drop"] = "probabilities";
  json["scope"] = "rank";
  return json;
}

void check_experts(TrainingConfig const& config, ConfigNode const& root) {
  ExpertCheck{config, root}.check();
}

}  // namespace stagecraft
