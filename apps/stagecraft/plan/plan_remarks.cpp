#include "apps/stagecraft/plan/plan_remarks.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "apps/stagecraft/near_miss.hpp"
#include "apps/stagecraft/plan/plan_figures.hpp"
#include "apps/stagecraft/plan/plan_overlaps.hpp"
#include "apps/stagecraft/plan/plan_schedules.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/repeated_heads.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

/// Says how little the best leaves if that is less than the margin, and which plan leaves enough.
/// `rows` are shown.
std::string margin_text(SearchResult const& result, PlanOptions const& options, std::size_t rows) {
  FoundPlan const& best = result.best.front();
  if (has_margin(best, options)) return {};
  std::string const text = "#1 leaves " + gibibytes(free_bytes(best)) +
                           " GiB of its device free, less than " + decimals(100 * usual_margin, 0) +
                           " % of it; ";
  for (std::vector<FoundPlan> const* const plans : {&result.best, &result.front}) {
    auto const found = std::ranges::find_if(
        *plans, [&](FoundPlan const& plan) { return has_margin(plan, options); });
    if (found == plans->end()) continue;
    auto const number = static_cast<std::size_t>(found - plans->begin());
    bool const is_shown = plans == &result.best && number < rows;
    double const more =
        to_seconds(found->simulation.iteration) / to_seconds(best.simulation.iteration) - 1;
    return text +
           (is_shown ? "#" + std::to_string(number + 1)
                     : "a plan with " + layout_words(found->config)) +
           " leaves " + gibibytes(free_bytes(*found)) + " GiB and takes " +
           decimals(100 * more, 1) + " % longer";
  }
  return text + "no plan of the answer leaves more";
}

/// How far the best is from what any order of its passes takes.
std::string bound_text(SearchResult const& result, PlanOptions const& options, bool is_whole) {
  FoundPlan const& best = result.best.front();
  if (best.config.sharding.has_units()) return {};  // one stage has one order
  ScheduleBound const bound = schedule_bound_of(best, options);
  if (!bound.iteration)
    return "what other orders of its passes take at least is not known: " + bound.reason + "\n";
  auto const more_than = [&](SimTime least) {
    return to_seconds(best.simulation.iteration) / to_seconds(least) - 1;
  };
  constexpr double least_shown = 0.0005;  // rounds to 0.1 %
  if (more_than(*bound.iteration) < least_shown)
    return "no other order of its passes is faster, in whatever memory\n";
  auto const line = [&](std::string const& beginning, SimTime least, std::string const& place) {
    return beginning + " takes at least " + decimals(to_seconds(least), 3) + " s" + place +
           ": this plan is at most " + decimals(100 * more_than(least), 1) +
           " % from the best schedule\n";
  };
  std::string text = line("any order of its passes", *bound.iteration, ", in whatever memory");
  if (!bound.in_memory && !is_whole) return text;
  if (!bound.in_memory)
    return text + "a larger bound within its memory: none found, " + bound.reason_in_memory + "\n";
  return text + line("within its memory it", *bound.in_memory, "");
}

/// Something to know before the best is started.
std::string remark_text(FoundPlan const& best) {
  std::optional<std::string> const heads = repeated_heads_text(best.config);
  return heads ? "#1: " + *heads + "\n" : "";
}

/// Which plans may be as fast as the best. `rows` are shown.
std::string ties_text(SearchResult const& result,
                      PlanOptions const& options,
                      bool is_whole,
                      std::size_t rows) {
  if (result.best.size() == 1) return {};  // nothing was compared
  std::vector<std::size_t> ties = near_ties(result, options);
  if (ties.empty()) return "each of the other plans is slower with a probability of at least 80 %";
  std::size_t const all = ties.size();
  std::erase_if(ties, [&](std::size_t i) { return i >= rows; });
  if (ties.size() < 2) {
    return counted(static_cast<std::int64_t>(all) - 1, "other plan") +
           " may be as fast as the best (less than 80 % sure to be slower)";
  }
  double const best = to_seconds(result.best.front().simulation.iteration);
  auto const tie_text = [&](std::size_t i) {
    double const more = to_seconds(result.best[i].simulation.iteration) / best - 1;
    return "#" + std::to_string(i + 1) + " " + gibibytes(result.best[i].peak()) + " GiB" +
           (i > 0 ? " (+" + decimals(100 * more, 1) + " %)" : "");
  };
  std::string text =
      "may be as fast as the best (less than 80 % sure to be slower), smallest peak first: ";
  std::size_t const shown = is_whole ? ties.size() : std::min<std::size_t>(ties.size(), 3);
  for (std::size_t k = 0; k < shown; ++k) text += (k > 0 ? ", " : "") + tie_text(ties[k]);
  if (shown < all) text += ", and " + std::to_string(all - shown) + " more";
  return text;
}

/// What would tell them apart, if that can be said of rows.
std::string apart_text(SearchResult const& result, PlanOptions const& options, std::size_t rows) {
  std::vector<std::size_t> const rivals = rivals_of(result, options);
  if (rivals.empty() || rivals.front() >= rows) return {};
  return "to tell them apart, measure an iteration of #" + std::to_string(rivals.front() + 1) +
         " and one of #1";
}

std::string left_out_text(std::int64_t count, std::string const& reason) {
  if (count == 0) return {};
  return std::to_string(count) + " combinations of layout and schedule are left out: " + reason +
         "\n";
}

/// One remark per line.
void append_lines(std::vector<PlanRemark>& remarks, std::string const& text) {
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) remarks.emplace_back(line);
}

/// What to know of the best plan of one cluster.
std::vector<PlanRemark> remarks_of(ClusterAnswer const& cluster) {
  SearchResult const& result = cluster.result;
  PlanOptions const& options = *cluster.options;
  FoundPlan const& best = result.best.front();
  std::string text;
  if (auto const goodput = figures_of(best, options).goodput) {
    text += goodput_text(*goodput) +
            (options.rates.tokens ? "; days, cost and energy count it" : "; costs count it") + "\n";
  }
  std::vector<PlanRemark> remarks;
  append_lines(remarks, text);
  remarks.emplace_back([&](std::size_t rows) { return margin_text(result, options, rows); });
  append_lines(remarks,
               remark_text(best) + "best: " + interval_text(interval_of_plan(best, options)) +
                   "\n" +
                   unmeasured_text(unmeasured_settings(best.config, options.request.system)));
  return remarks;
}

/// What to know of the clusters that are compared: a line each, or two.
std::string remarks_of(PlanAnswer const& answer) {
  std::string text;
  PlanOptions const& first = *answer.best.front().options;
  if (auto const goodput = figures_of(*answer.best.front(), first).goodput) {
    text += "#1: " + goodput_text(*goodput) + "; days, cost and energy count it\n";
  }
  for (ClusterAnswer const& cluster : answer.clusters) {
    PlanOptions const& options = *cluster.options;
    std::string const name = name_of_cluster(options) + ": ";
    if (!cluster.has_plans()) {
      text += name + near_miss_text(cluster.result, options) + "\n";
      continue;
    }
    FoundPlan const& best = cluster.result.best.front();
    text += name + interval_text(interval_of_plan(best, options)) + "\n";
    std::string const unmeasured =
        unmeasured_text(unmeasured_settings(best.config, options.request.system));
    if (!unmeasured.empty()) text += name + unmeasured;
    text += remark_text(best);
  }
  return text + comparison_remark + "\n";
}

}  // namespace

std::vector<PlanRemark> plan_remarks(PlanAnswer const& answer, bool is_whole) {
  std::vector<PlanRemark> remarks;
  if (answer.is_comparison()) {
    append_lines(remarks, remarks_of(answer));
    return remarks;
  }
  ClusterAnswer const& cluster = answer.clusters.front();
  remarks = remarks_of(cluster);
  std::vector<PlanRemark> searched = search_remarks(cluster, is_whole);
  std::ranges::move(searched, std::back_inserter(remarks));
  return remarks;
}

std::vector<PlanRemark> search_remarks(ClusterAnswer const& cluster, bool is_whole) {
  SearchResult const& result = cluster.result;
  PlanOptions const& options = *cluster.options;
  FoundPlan const& best = result.best.front();
  std::string const passes = " chunk passes (pipeline x interleave x microbatches)";
  std::vector<PlanRemark> remarks;
  remarks.emplace_back(
      [&, is_whole](std::size_t rows) { return ties_text(result, options, is_whole, rows); });
  remarks.emplace_back([&](std::size_t rows) { return apart_text(result, options, rows); });
  append_lines(remarks, schedules_text(result) + bound_text(result, options, is_whole));
  std::size_t const unsearched = remarks.size();
  append_lines(remarks, to_text(unsearched_overlaps(best, options)));
  remarks[unsearched].keep();
  std::string text =
      left_out_text(result.unordered,
                    "their orders have more than " + std::to_string(most_ordered_passes) + passes) +
      left_out_text(result.oversized, "they have more than " +
                                          std::to_string(max_scheduled_forwards) + passes +
                                          ", the most that a run may have");
  if (result.run_out > 0) text += run_out_text(result, options) + "\n";
  append_lines(remarks, text);
  return remarks;
}

std::string searched_text(ClusterAnswer const& cluster, bool is_whole) {
  SearchResult const& result = cluster.result;
  PlanOptions const& options = *cluster.options;
  std::string text = counted(result.considered, "plan");
  std::string const gpus = std::to_string(options.request.gpus) + " x " +
                           options.request.system.accelerator.name + " of " +
                           printable(options.request.system.name) + in_recipe(options);
  std::string const software = printable(options.request.system.software.name);
  if (is_whole) {
    double const rate =
        static_cast<double>(result.considered) / cluster.seconds / options.request.jobs;
    text += " considered in " + decimals(cluster.seconds, 2) + " s (" + decimals(rate, 0) +
            " per second and thread): " + std::to_string(result.dismissed_by_memory) +
            " cannot fit, " + std::to_string(result.dismissed_by_bound) +
            " cannot be among the best, " + std::to_string(result.simulated) + " simulated\non " +
            gpus + " with software " + software + "\n";
  } else {
    text += " searched in " + decimals(cluster.seconds, 2) + " s: " + gpus + ", software " +
            software + "\n";
  }
  if (is_whole && result.unexamined > 0) {
    text += std::to_string(result.unexamined) +
            " combinations of layout and schedule were skipped, and their plans are not counted: "
            "even their fastest plan is too slow\n";
  }
  return text;
}

std::string room_text(std::vector<ClusterAnswer> const& clusters) {
  PlanOptions const& options = *clusters.front().options;
  SearchRequest const& request = options.request;
  auto const share = [](ClusterAnswer const& cluster) {
    SearchRequest const& own = cluster.options->request;
    return decimals(100 * static_cast<double>(own.margin) /
                        static_cast<double>(own.system.accelerator.memory.value.count()),
                    1) +
           " %";
  };
  auto const is_same = [&](ClusterAnswer const& cluster) {
    return cluster.options->request.margin == request.margin;
  };
  std::string text;
  if (request.margin > 0 && std::ranges::all_of(clusters, is_same)) {
    text += " and leave " + gibibytes(request.margin) + " GiB of each device free (" +
            share(clusters.front()) + ")";
  } else if (request.margin > 0) {  // a share of different devices
    text += " and leave " + share(clusters.front()) + " of each device free";
  }
  if (request.safety > 0) {
    text += ", with a probability of at least " + decimals(request.safety, 3) +
            " by measured runs of " + request.system.software.name;
  }
  if (options.launchable)
    text += ", of those that " + std::string{options.launchable->name} + " can run";
  return text;
}

}  // namespace stagecraft
