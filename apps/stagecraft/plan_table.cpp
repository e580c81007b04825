#include "apps/stagecraft/plan_table.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "apps/stagecraft/plan_figures.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/training_names.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/search/search_space.hpp"

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

/// The layers of the first and the last stage.
std::string layout_text(TrainingConfig const& config) {
  if (config.layout.kind == LayerSplit::Kind::even) return "even";
  return std::to_string(config.layout.first.value_or(0)) + ".." +
         std::to_string(config.layout.last.value_or(0));
}

/// Whether two plans differ only in how many layers or microbatches are recomputed.
bool are_one_family(TrainingConfig a, TrainingConfig b) {
  for (TrainingConfig* const config : {&a, &b}) {
    for (RecomputePolicy& policy : config->recompute) {
      policy.layers = 1;
      policy.store_microbatches.count = policy.store_microbatches.count > 0 ? 1 : 0;
    }
  }
  return a == b;
}

/// What the words of the last columns mean, as far as plans of the result have them.
std::string legend_of_words(SearchResult const& result) {
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

}  // namespace

std::string plan_legend(SearchResult const& result, PlanOptions const& options) {
  std::string text =
      "(TFLOP/s and tokens/s per GPU; MFU counts attention over the full square; free: GiB beside "
      "the reserve; t tensor, SP sequence parallelism, p pipeline, m chunks per stage, d data, b "
      "microbatch, ";
  if (splits_sequences(options.request)) text += "c context, ";
  if (has_experts(options.request.base.model)) text += "EP expert, ETP expert tensor, ";
  text += "optim optimizer state)\n";
  std::string const words = legend_of_words(result);
  return words.empty() ? text : text + "(" + words + ")\n";
}

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
  constexpr std::size_t longest = 44;
  if (text.size() <= longest) return text;
  std::size_t const cut = text.rfind("; ", longest);
  return text.substr(0, cut == std::string::npos ? longest : cut) + "; ...";
}

std::vector<std::size_t> numbers_of(std::vector<FoundPlan> const& plans) {
  std::vector<std::size_t> all(plans.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::vector<std::size_t> ends_of_families(std::vector<FoundPlan> const& front) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < front.size(); ++i) {
    auto const is_kin = [&](FoundPlan const& other) {
      return are_one_family(other.config, front[i].config);
    };
    auto const at = front.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(front.begin(), at, is_kin) || std::none_of(at + 1, front.end(), is_kin)) {
      ends.push_back(i);
    }
  }
  return ends;
}

std::string plan_table(std::vector<FoundPlan> const& plans,
                       std::vector<std::size_t> const& shown,
                       PlanOptions const& options) {
  std::vector<TextTable::Column> columns{
      {"#"},        {"s"},    {"TFLOP/s"}, {"tokens/s"},        {"MFU %"},
      {"peak GiB"}, {"free"}, {"t"},       {"SP", Align::left}, {"p"},
      {"m"},        {"d"},    {"b"}};
  bool const splits = splits_sequences(options.request);
  if (splits) columns.push_back({"c"});
  bool const splits_experts = has_experts(options.request.base.model);
  if (splits_experts) columns.insert(columns.end(), {{"EP"}, {"ETP"}});
  columns.insert(columns.end(),
                 {{"schedule", Align::left}, {"layout", Align::left}, {"optim", Align::left}});
  if (options.rates.tokens) columns.push_back({"days"});
  if (options.rates.price) {
    std::string const currency = options.rates.currency.empty() ? "" : " " + options.rates.currency;
    columns.push_back({(options.rates.tokens ? "cost" : "cost per iteration") + currency});
  }
  if (options.rates.watts) columns.push_back({options.rates.tokens ? "MWh" : "kWh per iteration"});
  columns.push_back({"recompute by stage", Align::left});
  TextTable table{columns};
  for (std::size_t const i : shown) {
    FoundPlan const& plan = plans[i];
    ParallelLayout const& parallel = plan.config.parallel;
    std::vector<std::string> cells{std::to_string(i + 1),
                                   decimals(to_seconds(plan.simulation.iteration), 3),
                                   decimals(teraflops_per_gpu(plan, options), 0),
                                   decimals(tokens_per_gpu(plan, options), 0),
                                   decimals(100 * plan.simulation.mfu, 1),
                                   gibibytes(plan.peak()),
                                   gibibytes(headroom_of(plan, options)),
                                   std::to_string(parallel.tensor),
                                   parallel.sequence ? "yes" : "no",
                                   std::to_string(parallel.pipeline),
                                   std::to_string(parallel.interleave),
                                   std::to_string(parallel.data),
                                   std::to_string(plan.config.batch.micro)};
    if (splits) cells.push_back(std::to_string(parallel.context));
    if (splits_experts) {
      cells.push_back(std::to_string(parallel.expert));
      cells.push_back(std::to_string(parallel.expert_tensor));
    }
    cells.insert(cells.end(),
                 {std::string{name_of(plan.config.schedule.kind)}, layout_text(plan.config),
                  plan.config.memory.distributed_optimizer ? "sharded" : "whole"});
    if (auto const days = days_of(plan, options)) cells.push_back(decimals(*days, 2));
    if (auto const cost = cost_of(plan, options)) cells.push_back(amount_text(*cost));
    if (auto const energy = energy_of(plan, options)) cells.push_back(decimals(*energy, 3));
    cells.push_back(recompute_text(plan.config));
    table.add_row(std::move(cells));
  }
  return table.text();
}

}  // namespace stagecraft
