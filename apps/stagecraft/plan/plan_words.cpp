#include "apps/stagecraft/plan/plan_words.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "libsim/model/model_names.hpp"
#include "libsim/model/recompute_regions.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/training/layer_split.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

namespace {

bool has_chosen_modules(RecomputePolicy const& policy) {
  return policy.granularity == RecomputeGranularity::selective &&
         policy.modules != RecomputePolicy{}.modules;
}

std::string text_of(RecomputePolicy const& policy,
                    std::string_view RecomputeRegion::*module = &RecomputeRegion::name) {
  std::string text{name_of(policy.granularity)};
  if (has_chosen_modules(policy)) text = regions_text(policy.modules, module);
  if (policy.granularity == RecomputeGranularity::full) {
    if (policy.method == RecomputeMethod::block) {
      text += " first " + std::to_string(policy.layers);
    } else if (policy.layers > 1) {
      text += " by " + std::to_string(policy.layers);
    }
  }
  if (policy.store_microbatches.count > 0) {
    text += " +" + std::to_string(policy.store_microbatches.count);
  }
  return text;
}

/// "4", or "4-11".
std::string range_text(std::vector<std::int64_t> const& values) {
  auto const [least, most] = std::ranges::minmax(values);
  return std::to_string(least) + (least == most ? "" : "-" + std::to_string(most));
}

/// "60.13", or "60.13 to 73.03".
std::string gibibytes_text(std::vector<std::int64_t> const& bytes) {
  auto const [least, most] = std::ranges::minmax(bytes);
  std::string const from = gibibytes(least);
  std::string const to = gibibytes(most);
  return from == to ? from : from + " to " + to;
}

}  // namespace

std::string recompute_text(TrainingConfig const& config) {
  std::vector<RecomputePolicy> const& policies = config.recompute;
  std::string text;
  for (std::size_t first = 0; first < policies.size();) {
    std::size_t end = first + 1;
    while (end < policies.size() && policies[end] == policies[first]) ++end;
    if (!text.empty()) text += "; ";
    if (policies.size() > 1) {
      text += std::to_string(first) + (end - first > 1 ? "-" + std::to_string(end - 1) : "") + " ";
    }
    text += text_of(policies[first]);
    first = end;
  }
  return text;
}

std::string sharding_text(Sharding const& sharding) {
  std::string text{sharding.traits().short_name};
  if (sharding.strategy != default_sharding(sharding.kind).strategy) {
    text += " " + std::string{name_of(sharding.strategy)};
  }
  if (sharding.group > 0) text += "/" + std::to_string(sharding.group);
  if (sharding.reshard_after_forward.kind == Reshard::Kind::no) text += " kept";
  if (sharding.traits().has_buckets()) text += sharding.overlap ? " beside" : " between";
  return text;
}

std::string layout_text(FoundPlan const& plan) {
  TrainingConfig const& config = plan.config;
  if (config.layout.kind == LayerSplit::Kind::even) return "even";
  std::vector<std::int64_t> layers;
  for (StageResult const& stage : plan.simulation.stages) layers.push_back(stage.layers);
  // Stages that hold two copies of the model say nothing of how each is cut.
  bool const has_copies =
      std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) > config.model.layers;
  if (has_copies) layers = layers_of_virtual_stages(config);
  std::string text;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t end = first + 1;
    while (end < layers.size() && layers[end] == layers[first]) ++end;
    text += (text.empty() ? "" : "+") +
            (end - first > 1 ? std::to_string(end - first) + "x" : std::string{}) +
            std::to_string(layers[first]);
    first = end;
  }
  return text;
}

std::string common_recompute(TrainingConfig const& config) {
  std::vector<RecomputePolicy> const& policies = config.recompute;
  std::vector<std::int64_t> layers;
  std::vector<std::int64_t> stored;
  std::vector<std::string> kinds;
  std::set<std::string> texts;
  bool has_one_kind = true;
  for (RecomputePolicy const& policy : policies) {
    layers.push_back(policy.layers);
    stored.push_back(policy.store_microbatches.count);
    has_one_kind = has_one_kind && policy.granularity == policies.front().granularity &&
                   policy.method == policies.front().method && !has_chosen_modules(policy);
    std::string const kind{has_chosen_modules(policy) ? "modules" : name_of(policy.granularity)};
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    texts.insert(text_of(policy, &RecomputeRegion::short_name));
  }
  if (texts.size() == 1) return *texts.begin();
  if (!has_one_kind) return joined(kinds, "/");
  RecomputePolicy const& first = policies.front();
  std::string text{name_of(first.granularity)};
  if (first.granularity == RecomputeGranularity::full) {
    bool const is_block = first.method == RecomputeMethod::block;
    if (is_block || std::ranges::max(layers) > 1) text += is_block ? " first " : " by ";
    if (is_block || std::ranges::max(layers) > 1) text += range_text(layers);
  }
  if (std::ranges::max(stored) > 0) text += " +" + range_text(stored);
  return text;
}

void explain_recompute(std::vector<ShownPlan> const& plans, std::vector<std::string>& legend) {
  bool has_block = false;
  bool has_uniform = false;
  bool has_window = false;
  std::vector<std::string> modules;
  for (ShownPlan const& plan : plans) {
    for (RecomputePolicy const& policy : plan->config.recompute) {
      bool const is_full = policy.granularity == RecomputeGranularity::full;
      bool const is_block = policy.method == RecomputeMethod::block;
      has_block = has_block || (is_full && is_block);
      has_uniform = has_uniform || (is_full && !is_block && policy.layers > 1);
      has_window = has_window || policy.store_microbatches.count > 0;
      if (!has_chosen_modules(policy)) continue;
      modules.insert(modules.end(), policy.modules.begin(), policy.modules.end());
    }
  }
  if (has_block) legend.emplace_back("full first N: the first N layers of a chunk are recomputed");
  if (has_uniform) legend.emplace_back("full by N: one checkpoint per N layers");
  if (!modules.empty()) {
    legend.push_back("recomputed modules: " + short_names_text(std::move(modules)));
  }
  if (has_window) legend.emplace_back("+N: N microbatches of each window keep everything");
}

std::vector<std::string> stage_lines(FoundPlan const& plan) {
  std::vector<StageResult> const& stages = plan.simulation.stages;
  std::vector<RecomputePolicy> const& policies = plan.config.recompute;
  if (stages.size() == 1) return {};
  TextTable table{{{"stage", Align::left},
                   {"layers"},
                   {"peak GiB"},
                   {"free on the device", Align::right},
                   {"recompute", Align::left}}};
  auto const policy = [&](std::size_t stage) -> RecomputePolicy const& {
    return policies[policies.size() == 1 ? 0 : stage];
  };
  for (std::size_t first = 0; first < stages.size();) {
    std::size_t end = first + 1;
    while (end < stages.size() && stages[end].layers == stages[first].layers &&
           policy(end) == policy(first)) {
      ++end;
    }
    std::vector<std::int64_t> peaks;
    std::vector<std::int64_t> margins;
    for (std::size_t stage = first; stage < end; ++stage) {
      peaks.push_back(stages[stage].peak());
      margins.push_back(stages[stage].margin);
    }
    table.add_row({std::to_string(first) + (end - first > 1 ? "-" + std::to_string(end - 1) : ""),
                   std::to_string(stages[first].layers), gibibytes_text(peaks),
                   gibibytes_text(margins), text_of(policy(first))});
    first = end;
  }
  std::istringstream text{table.text()};
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

}  // namespace stagecraft
