#include "libsim/training/expert_overlap.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/schedule/generators/order_request.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/training/combination_check.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

class OverlapCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check() const {
    if (!config_.parallel.expert_overlap) return;
    if (!sound({"parallel", "schedule", "recompute"})) return;
    std::string const why = ", as parallel.expert_overlap is true";
    if (config_.parallel.expert == 1) {
      refuse("parallel.expert", 1, "at least 2" + why);
    }
    ScheduleKind const kind = config_.schedule.kind;
    int const stages = config_.parallel.pipeline;
    if (kind == ScheduleKind::interleaved && config_.parallel.interleave == 1) {
      refuse("parallel.interleave", 1, "at least 2 on several stages" + why);
    } else if (kind != ScheduleKind::order && kind != ScheduleKind::interleaved) {
      refuse("schedule", name_of(kind),
             std::string{stages == 1 ? "1f1b" : "interleaved"} + ", or the order that it comes to" +
                 why);
    }
    for (RecomputePolicy const& policy : config_.recompute) {
      bool const has_moe =
          std::find(policy.modules.begin(), policy.modules.end(), "moe") != policy.modules.end();
      bool const is_full = policy.granularity == RecomputeGranularity::full;
      if (!is_full && !has_moe) continue;
      // The section is a word, a map, or a list of either.
      std::string_view const own = is_full ? "granularity" : "modules";
      bool const has_key = root_.child("recompute").child(own).exists();
      refuse(has_key ? "recompute." + std::string{own} : "recompute",
             is_full ? "full" : "modules with moe",
             "none, or selective without moe" + why +
                 ": Megatron-LM cannot recompute a layer whose parts it interleaves");
      break;
    }
  }
};

/// Source: Megatron-LM, transformer_config.py, moe_shared_expert_overlap.
class SharedOverlapCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check() const {
    if (!config_.parallel.shared_expert_overlap) return;
    if (!sound({"model", "parallel", "dispatch", "recompute"})) return;
    if (!has_shared_experts(config_.model)) {
      refuse(key, "true",
             "false, as no layer has shared experts (model.experts.shared_ffn_hidden)");
    }
    if (config_.parallel.expert_overlap) {
      refuse(key, "true", "false, as parallel.expert_overlap is true");
    }
    std::string const why = ", as " + std::string{key} + " is true";
    if (config_.dispatch != Dispatch::alltoall) {
      refuse("dispatch", name_of(config_.dispatch), "alltoall" + why);
    }
    bool const is_recomputed =
        std::ranges::any_of(config_.recompute, [](RecomputePolicy const& policy) {
          return std::ranges::find(policy.modules, "shared_experts") != policy.modules.end();
        });
    if (!is_recomputed) return;
    std::string const accepted = "modules without shared_experts" + why +
                                 ": Megatron-LM cannot recompute what it computes beside exchanges";
    std::optional<ConfigNode> const module = find_module(root_.child("recompute"));
    if (module) {
      module->report(accepted);
    } else {
      refuse("recompute", "modules with shared_experts", accepted);
    }
  }

 private:
  /// Finds the first place at which a file asks to recompute shared experts. Each stage may have a
  /// policy of its own, so places are searched at any depth.
  static std::optional<ConfigNode> find_module(ConfigNode const& node) {
    if (node.reads("shared_experts")) return node;
    std::vector<ConfigNode> below = node.items();
    std::ranges::copy(node.entries(), std::back_inserter(below));
    for (ConfigNode const& next : below) {
      if (std::optional<ConfigNode> found = find_module(next)) return found;
    }
    return std::nullopt;
  }

  static constexpr std::string_view key = "parallel.shared_expert_overlap";
};

}  // namespace

bool has_shared_experts(ModelConfig const& model) {
  return std::ranges::any_of(layer_runs(model), [](LayerRun const& run) {
    return run.kind.experts && run.kind.experts->shared_ffn_hidden > 0;
  });
}

void settle_expert_overlap(TrainingConfig& config) {
  ScheduleConfig& schedule = config.schedule;
  int const stages = config.parallel.pipeline;
  std::int64_t const sequences = config.batch.micro * config.parallel.data;
  bool const is_asked = config.parallel.expert_overlap && config.batch.global % sequences == 0;
  bool const has_pairs = schedule.kind == ScheduleKind::interleaved ||
                         (schedule.kind == ScheduleKind::one_f_one_b && stages == 1);
  if (!is_asked || !has_pairs) return;
  auto const n = static_cast<int>(microbatches(config));
  std::int64_t const forwards = std::int64_t{stages} * config.parallel.interleave * n;
  if (forwards > max_ordered_forwards) return;
  try {
    PipelineOrder order = make_order({.kind = ScheduleKind::interleaved,
                                      .stages = stages,
                                      .microbatches = n,
                                      .chunks = config.parallel.interleave,
                                      .group = stages == 1 ? n : schedule.group,
                                      .expert_overlap = true});
    schedule.kind = ScheduleKind::order;
    schedule.group = 0;
    schedule.p2p = P2p::overlapped;
    schedule.order = SharedOrder{std::move(order)};
  } catch (ScheduleError const&) {
    return;
  }
}

void check_expert_overlap(TrainingConfig const& config, ConfigNode const& root) {
  OverlapCheck{config, root}.check();
  SharedOverlapCheck{config, root}.check();
}

}  // namespace stagecraft
