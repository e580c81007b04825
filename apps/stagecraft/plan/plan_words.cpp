#include "apps/stagecraft/plan/plan_words.hpp"

#include "libsim/model/model_names.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

std::string text_of(RecomputePolicy const& policy) {
  std::string text{name_of(policy.granularity)};
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

std::string layout_text(TrainingConfig const& config) {
  if (config.layout.kind == LayerSplit::Kind::even) return "even";
  return std::to_string(config.layout.first.value_or(0)) + ".." +
         std::to_string(config.layout.last.value_or(0));
}

std::string words_legend(SearchResult const& result) {
  bool has_layout = false;
  bool has_block = false;
  bool has_uniform = false;
  bool has_window = false;
  for (std::vector<FoundPlan> const* const plans : {&result.best, &result.front}) {
    for (FoundPlan const& plan : *plans) {
      has_layout = has_layout || plan.config.layout.kind != LayerSplit::Kind::even;
      for (RecomputePolicy const& policy : plan.config.recompute) {
        bool const is_full = policy.granularity == RecomputeGranularity::full;
        bool const is_block = policy.method == RecomputeMethod::block;
        has_block = has_block || (is_full && is_block);
        has_uniform = has_uniform || (is_full && !is_block && policy.layers > 1);
        has_window = has_window || policy.store_microbatches.count > 0;
      }
    }
  }
  std::string text;
  auto const add = [&text](bool is_used, char const* words) {
    if (is_used) text += (text.empty() ? "" : "; ") + std::string{words};
  };
  add(has_layout, "layout: layers of the first..last stage");
  add(has_block, "full first N: the first N layers of a chunk are recomputed");
  add(has_uniform, "full by N: one checkpoint per N layers");
  add(has_window, "+N: N microbatches of each window keep everything");
  return text;
}

}  // namespace stagecraft
