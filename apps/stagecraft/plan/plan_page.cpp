#include "apps/stagecraft/plan/plan_page.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/stagecraft/plan/plan_launch.hpp"
#include "apps/stagecraft/plan/plan_remarks.hpp"
#include "apps/stagecraft/plan/plan_words.hpp"
#include "libsim/page/plans_page.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t most_plans = 5;  ///< that a reader compares

/// "tensor 8, pipeline 8 x 3 chunks, microbatches of 1; interleaved, recompute selective": factors
/// of one are left out.
std::string spelled_layout(TrainingConfig const& config) {
  ParallelLayout const& parallel = config.parallel;
  std::string text;
  auto const add = [&](char const* name, int factor) {
    if (factor > 1) text += (text.empty() ? "" : ", ") + (name + (" " + std::to_string(factor)));
  };
  add("tensor", parallel.tensor);
  add("pipeline", parallel.pipeline);
  if (parallel.interleave > 1) text += " x " + std::to_string(parallel.interleave) + " chunks";
  add("context", parallel.context);
  add("expert", parallel.expert);
  add("data", parallel.data);
  text += (text.empty() ? "" : ", ") + std::string{"microbatches of "} +
          std::to_string(config.batch.micro);
  return text + "; " + std::string{name_of(config.schedule.kind)} + ", recompute " +
         recompute_text(config);
}

PagePlan page_plan(ShownPlan const& shown, std::string note) {
  return {.cluster = name_of_cluster(*shown.options),
          .layout = spelled_layout(shown->config),
          .note = std::move(note),
          .config = &shown->config,
          .simulation = &shown->simulation,
          .system = &shown.options->request.system,
          .rates = shown.options->rates};
}

/// The best of each cluster; of one cluster alone its best few. Best first.
std::vector<PagePlan> candidates_of(PlanAnswer const& answer, PlanRank rank) {
  std::vector<std::pair<double, PagePlan>> plans;
  auto const add = [&](ShownPlan const& shown, std::string note) {
    bool const is_there = std::ranges::any_of(plans, [&](auto const& other) {
      return *other.second.config == shown->config &&
             other.second.system == &shown.options->request.system;
    });
    if (!is_there) plans.emplace_back(demerit_of(shown, rank), page_plan(shown, std::move(note)));
  };
  for (ClusterAnswer const& cluster : answer.clusters) {
    std::size_t const shown =
        answer.is_comparison() ? 1 : std::min(most_plans, cluster.result.best.size());
    for (std::size_t i = 0; i < std::min(shown, cluster.result.best.size()); ++i) {
      add({&cluster.result.best[i], cluster.options, &cluster}, "");
    }
    if (auto const launched = launched_plan(cluster)) {
      add(launched->plan,
          "the best that the flags of " + std::string{launched->framework->name} + " can say");
    }
  }
  std::ranges::stable_sort(plans, {}, [](auto const& plan) { return plan.first; });
  std::vector<PagePlan> list;
  list.reserve(plans.size());
  for (auto& [demerit, plan] : plans) list.push_back(std::move(plan));
  return list;
}

}  // namespace

std::string plan_page(PlanAnswer const& answer, PlanQuestion const& question) {
  ShownPlan const& best = answer.best.front();
  ModelConfig const& model = best->config.model;
  SearchRequest const& request = best.options->request;
  std::string clusters;
  for (PlanOptions const& options : question.clusters) {
    clusters += (clusters.empty() ? "" : ", ") + name_of_cluster(options);
  }
  PageQuestion const page{
      .title =
          (answer.is_comparison() ? "Where to train " : "How to train ") + parameters_text(model),
      .subtitle = {"On " + clusters + ", with " + std::to_string(request.global_batch) +
                       " sequences of " + std::to_string(model.sequence) +
                       " tokens per iteration; ranked by " + name_of(question.rank) + ".",
                   "Predicted by simulation; what stands behind the numbers is at the end."},
      .remarks = answer.is_comparison() ? std::vector<std::string>{comparison_remark}
                                        : search_remarks(answer.clusters.front(), false),
      .command_line = question.command_line,
      .run_file = to_yaml(RunConfig{best->config, request.system, {}})};
  return plans_page(candidates_of(answer, question.rank), page);
}

}  // namespace stagecraft
