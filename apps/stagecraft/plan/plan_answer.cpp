#include "apps/stagecraft/plan/plan_answer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "apps/program/command_line.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/fix_names.hpp"
#include "apps/stagecraft/plan/plan_figures.hpp"
#include "libsim/search/search_space.hpp"

namespace stagecraft {
namespace {

/// The nearest numbers of GPUs, below and above, for which there are plans.
std::string near_numbers(SearchRequest request) {
  constexpr int reach = 64;
  int const gpus = request.gpus;
  std::string text;
  for (int const step : {-1, 1}) {
    for (int away = 1; away <= reach; ++away) {
      request.gpus = gpus + step * away;
      if (request.gpus < 1) break;
      if (!has_plans(request)) continue;
      text += (text.empty() ? "; the nearest are " : " and ") + std::to_string(request.gpus);
      break;
    }
  }
  return text;
}

/// Reports that there is no plan: because of --fix, or even without it.
[[noreturn]] void refuse_empty_space(PlanOptions const& plan) {
  SearchRequest free = plan.request;
  free.filter = {};
  std::string const run = "some legal run of this model on " + std::to_string(free.gpus) +
                          " GPUs with a global batch of " + std::to_string(free.global_batch);
  if (!has_plans(free)) {
    throw CommandLineError{"--gpus", "'" + std::to_string(free.gpus) + "'",
                           "a number that is the product tensor x pipeline x data of a legal run "
                           "of this model with --global-batch " +
                               std::to_string(free.global_batch) + near_numbers(free)};
  }
  std::string all;
  for (FixOption const& fix : plan.fixes) {
    free.filter = fix.alone;
    if (!has_plans(free)) {
      free.filter = {};
      throw CommandLineError{"--fix", "'" + fix.text + "'",
                             "what " + run + " has" + legal_numbers(free, fix.text)};
    }
    all += (all.empty() ? "'" : " and '") + fix.text + "'";
  }
  if (all.empty()) {
    throw CommandLineError{"--launchable",
                           std::string{"'"} + name_of(*plan.launchable) +
                               "', which can run no plan of this model on " +
                               std::to_string(free.gpus) + " GPUs",
                           "other numbers of GPUs, or no --launchable"};
  }
  throw CommandLineError{
      "--fix", all,
      "what " + run + " has together" + (plan.launchable ? ", which --launchable can run" : "")};
}

}  // namespace

double demerit_of(ShownPlan const& shown, PlanRank rank) {
  PlanOptions const& options = *shown.options;
  switch (rank) {
    case PlanRank::tokens:
      return -tokens_per_gpu(*shown, options);
    case PlanRank::cost:
      return *figures_of(*shown, options).cost_per_trillion_tokens;
    case PlanRank::energy:
      return *figures_of(*shown, options).joules_per_token;
    case PlanRank::iteration:
      break;
  }
  return to_seconds(shown->simulation.iteration);
}

std::vector<ShownPlan> plans_of(ClusterAnswer const& cluster,
                                std::vector<FoundPlan> const& plans,
                                std::vector<std::size_t> const& shown) {
  std::vector<ShownPlan> list;
  list.reserve(shown.size());
  for (std::size_t const i : shown) list.push_back({&plans[i], cluster.options, &cluster});
  return list;
}

void rank_plans(PlanAnswer& answer, PlanRank rank) {
  std::size_t const clusters = answer.clusters.size();
  for (ClusterAnswer const& cluster : answer.clusters) {
    auto const top = static_cast<std::size_t>(cluster.options->request.top);
    std::size_t const share = (top + clusters - 1) / clusters;
    for (FoundPlan const& plan : cluster.result.best) {
      if (&plan == cluster.result.best.data() + share) break;
      answer.best.push_back({&plan, cluster.options, &cluster});
    }
  }
  std::ranges::stable_sort(answer.best, {},
                           [&](ShownPlan const& plan) { return demerit_of(plan, rank); });
}

PlanAnswer plan_as_asked(PlanQuestion const& question, CommandProgress const& progress) {
  PlanAnswer answer;
  answer.clusters.reserve(question.clusters.size());
  for (PlanOptions const& options : question.clusters) {
    std::string const where =
        question.clusters.size() > 1 ? name_of_cluster(options) + ": " : std::string{};
    SearchRequest request = options.request;
    request.progress = [&](SearchProgress const& state) {
      // Considered while bounds are computed, simulated afterwards.
      bool const bounds = state.part == SearchProgress::Part::bounds;
      constexpr std::array<char const*, 4> parts{"bounding", "simulating", "searching shapes",
                                                 "searching orders"};
      progress((where + parts.at(static_cast<std::size_t>(state.part))).c_str(), state.done,
               static_cast<double>(bounds ? state.considered : state.simulated));
    };
    auto const begin = std::chrono::steady_clock::now();
    SearchResult result = search_plans(request);
    if (result.considered == 0) refuse_empty_space(options);
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
    answer.clusters.push_back({&options, std::move(result), seconds.count()});
  }
  rank_plans(answer, question.rank);
  return answer;
}

}  // namespace stagecraft
