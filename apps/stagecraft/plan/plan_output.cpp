#include "apps/stagecraft/plan/plan_output.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include "apps/stagecraft/plan/plan_figures.hpp"
#include "apps/stagecraft/plan/plan_launch.hpp"
#include "apps/stagecraft/plan/plan_remarks.hpp"
#include "apps/stagecraft/plan/plan_schedules.hpp"
#include "apps/stagecraft/plan/plan_table.hpp"
#include "apps/stagecraft/plan/plan_words.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/search/plan_search.hpp"
#include "libsim/search/standings.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

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

/// The fastest and the smallest plan of each family of a front, by their numbers.
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

std::string prose(std::string const& text, int width) { return wrapped_lines(text, width, 2); }

int lines_in(std::string const& text) { return static_cast<int>(std::ranges::count(text, '\n')); }

/// The environment that the plan's memory was predicted with.
std::string environment_text(FoundPlan const& plan) {
  MemoryConfig const& memory = plan.config.memory;
  if (memory.allocator != AllocatorKind::pytorch) return "";
  return memory.allocator_settings.empty()
             ? "with PYTORCH_CUDA_ALLOC_CONF not set\n"
             : "with PYTORCH_CUDA_ALLOC_CONF=" + memory.allocator_settings + "\n";
}

/// The flags of a plan: all in one line to paste, or those that the search decides, as a paragraph.
std::string flags_of(FoundPlan const& plan,
                     LaunchFramework const& framework,
                     bool is_whole,
                     int width) {
  if (is_whole && framework.flags) {
    return framework.flags(plan.config) + "\n" + environment_text(plan) +
           "data, steps and checkpoints are to be added; --lr, --seed and the like are `training` "
           "of the run\n";
  }
  // Lines that a shell continues.
  std::string text;
  std::istringstream lines{wrapped(framework.layout_flags(plan.config), width - 4)};
  for (std::string line; std::getline(lines, line);) {
    text += (text.empty() ? "  " : " \\\n  ") + line;
  }
  return text + "\n";
}

/// What starts the best plan that can be launched, and why that is not the first.
std::string flags_text(PlanAnswer const& answer, PlanQuestion const& question, int width) {
  bool const is_whole = question.shows_all;
  ShownPlan const& first = answer.best.front();
  auto const launched = launched_plan(answer, question.rank);
  if (!launched) {
    PlanOptions const& options = *first.options;
    LaunchFramework const& framework = printed_framework(options);
    std::string const name{framework.name};
    if (!options.stack_gap.empty()) {
      return prose("flags of " + name + " can say no plan of this model: " + options.stack_gap +
                       "; the flags of #1 without it:\n",
                   width) +
             flags_of(*first, framework, is_whole, width);
    }
    std::string text = options.stack_framework ? "of the plans searched, none that the flags of " +
                                                     name + " can say fits\n"
                                               : "";
    text += "These flags do not run #1: " + std::string{framework.title} + " has none for\n";
    for (std::string const& gap : framework.gaps(first->config, options.node_size()))
      text += "  " + gap + "\n";
    return prose(text, width) + flags_of(*first, framework, is_whole, width);
  }
  FoundPlan const& plan = *launched->plan;
  LaunchFramework const& framework = *launched->framework;
  std::string text;
  std::string const flags =
      is_whole && framework.flags ? "Megatron-LM's flags" : "the flags of its layout";
  std::vector<std::string> const gaps =
      framework.gaps(plan.config, launched->plan.options->node_size());
  if (!is_first(*launched, answer)) {
    text = flags + ", to start the plan at the top:\n";
  } else if (gaps.empty()) {
    text = "#1 is what " + std::string{framework.title} + " can run; " + flags + ":\n";
  } else {
    text =
        "These flags do not run the best plan: " + std::string{framework.title} + " has none for\n";
    for (std::string const& gap : gaps) text += "  " + gap + "\n";
  }
  std::string const hint =
      question.kit
          ? ""
          : prose("--kit DIR writes it as scripts with all flags, -o FILE the run file of #1\n",
                  width);
  return prose(text, width) + flags_of(plan, framework, is_whole, width) + hint;
}

/// The plan to start, before all others, if the first one cannot be started; else empty.
std::string start_text(PlanAnswer const& answer, PlanQuestion const& question, int width) {
  auto const launched = launched_plan(answer, question.rank);
  if (!launched || is_first(*launched, answer)) return {};
  FoundPlan const& plan = *launched->plan;
  std::string const where =
      answer.is_comparison() ? " on " + name_of_cluster(*launched->plan.options) : "";
  return "\n" +
         prose("to start: the best that the flags of " + std::string{launched->framework->name} +
                   " can say takes " + decimals(to_seconds(plan.simulation.iteration), 3) + " s" +
                   where + ": " + layout_words(plan.config) + "; " +
                   why_not_started(*launched, answer.best.front(), "#1") + "\n",
               width);
}

/// The heading and the legend of the tables.
std::string heading_text(PlanAnswer const& answer, PlanQuestion const& question) {
  if (!answer.is_comparison()) {
    return "fastest plans that fit" + room_text(answer.clusters) + "\n";
  }
  std::string const by = question.rank == PlanRank::tokens   ? "most tokens per second and GPU"
                         : question.rank == PlanRank::cost   ? "least cost per token"
                         : question.rank == PlanRank::energy ? "least energy per token"
                                                             : "shortest iterations";
  return by + " of plans that fit" + room_text(answer.clusters) + "\n";
}

/// Numbers from 1.
std::vector<std::size_t> first_numbers(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{1});
  return numbers;
}

/// The front of a cluster: its fastest and smallest plans of each family.
struct FrontTable {
  PlanTable table;
  std::size_t left_out = 0;
};

FrontTable front_table(ClusterAnswer const& cluster, TableStyle const& style) {
  std::vector<std::size_t> const shown = ends_of_families(cluster.result.front);
  std::vector<std::size_t> numbers = shown;
  for (std::size_t& number : numbers) ++number;
  return {plan_table(plans_of(cluster, cluster.result.front, shown), numbers, style),
          cluster.result.front.size() - shown.size()};
}

/// The fronts of all clusters. The legend of one cluster's belongs to that of the best plans.
std::string front_text(PlanAnswer const& answer,
                       TableStyle const& style,
                       std::vector<std::string>& legend) {
  std::string text;
  for (ClusterAnswer const& cluster : answer.clusters) {
    if (!cluster.has_plans()) continue;
    FrontTable const front = front_table(cluster, style);
    std::string heading = "time against memory";
    if (answer.is_comparison()) heading += " on " + name_of_cluster(*cluster.options);
    heading += ": no other plan is both faster and smaller (up to " + decimals(front_reach, 1) +
               " times the best's time)\n";
    if (answer.is_comparison()) heading += legend_text(front.table.legend);
    for (std::string const& part : front.table.legend) {
      if (!answer.is_comparison()) legend.push_back(part);
    }
    text += "\n" + prose(heading + front.table.common, style.width) + front.table.heading + "\n" +
            joined(front.table.rows, "");
    if (front.left_out > 0) {
      text += prose(std::to_string(front.left_out) +
                        " more lie between two of these and differ from them only in how much is "
                        "recomputed (--json has them)\n",
                    style.width);
    }
  }
  return text + "\n";
}

/// The parts of an answer, in their order.
struct PlanPage {
  std::string searched;
  std::string searched_in_all;  ///< in one line, of several clusters
  std::string start;
  std::string heading;  ///< with the legend, and what all plans have in common
  std::string columns;
  std::vector<std::string> rows;
  std::vector<std::size_t> needed;  ///< of the rows: the best of each cluster
  std::vector<std::string> stages;
  std::vector<std::string> policies;  ///< of the stages, where these are too many
  std::vector<PlanRemark> remarks;
  std::string cut;  ///< what was left out, or empty
  std::string front;
  std::string flags;
};

std::string text_of(PlanPage const& page, int width) {
  std::string text =
      page.searched + page.start + "\n" + page.heading + page.columns + joined(page.rows, "");
  for (std::string const& line : page.stages) text += line + "\n";
  for (PlanRemark const& remark : page.remarks) {
    std::string const line = remark.text(page.rows.size());
    if (!line.empty()) text += wrapped(line, width, 2);
  }
  return text + page.cut + page.front + page.flags;
}

/// Leaves out the last row that is not needed. Returns whether there was one.
bool drop_row(PlanPage& page) {
  for (std::size_t row = page.rows.size(); row-- > 0;) {
    if (std::ranges::find(page.needed, row) != page.needed.end()) continue;
    page.rows.erase(page.rows.begin() + static_cast<std::ptrdiff_t>(row));
    for (std::size_t& needed : page.needed) needed -= needed > row ? 1 : 0;
    return true;
  }
  return false;
}

/// Leaves out the last remark that may go. Returns whether there was one.
bool drop_remark(PlanPage& page) {
  auto const last =
      std::ranges::find(page.remarks.rbegin(), page.remarks.rend(), false, &PlanRemark::is_kept);
  if (last == page.remarks.rend()) return false;
  page.remarks.erase(std::prev(last.base()));
  return true;
}

/// Leaves out what says least until the answer fits on one screen.
std::string on_one_screen(PlanPage page, int width) {
  constexpr std::size_t fewest_rows = 3;
  constexpr std::size_t enough_rows = 5;
  constexpr std::size_t fewest_remarks = 4;
  constexpr std::size_t most_stages = 8;  // lines
  if (page.stages.size() > most_stages + 2) page.stages = page.policies;
  std::size_t const rows = page.rows.size();
  std::size_t const remarks = page.remarks.size();
  std::string text = text_of(page, width);
  auto const cut = [&] {
    if (page.rows.size() > enough_rows && drop_row(page)) return true;
    if (page.remarks.size() > fewest_remarks && drop_remark(page)) return true;
    if (!page.searched_in_all.empty()) {
      page.searched = std::exchange(page.searched_in_all, {});
      return true;
    }
    if (page.rows.size() > fewest_rows && drop_row(page)) return true;
    if (!page.stages.empty()) {
      page.stages.clear();
      return true;
    }
    if (drop_remark(page)) return true;
    if (page.rows.size() == 1) return false;
    page.rows.pop_back();  // the best of a cluster, and of all the last
    return true;
  };
  while (lines_in(text) > screen_lines && cut()) {
    std::string left_out;
    if (page.rows.size() < rows) left_out = counted(rows - page.rows.size(), "more plan");
    if (page.remarks.size() < remarks) {
      left_out +=
          (left_out.empty() ? "" : " and ") + counted(remarks - page.remarks.size(), "more remark");
    }
    page.cut = left_out.empty() ? "" : left_out + ": --all; time against memory: --front\n";
    text = text_of(page, width);
  }
  return text;
}

}  // namespace

std::string plan_text(PlanAnswer const& answer, PlanQuestion const& question, int width) {
  TableStyle const style{
      .width = width, .has_stages = question.shows_all, .is_comparison = answer.is_comparison()};
  PlanTable const table = plan_table(answer.best, first_numbers(answer.best.size()), style);
  PlanPage page;
  for (ClusterAnswer const& cluster : answer.clusters) {
    page.searched += prose(searched_text(cluster, question.shows_all), width);
  }
  std::vector<std::string> legend = table.legend;
  bool const shows_front = question.shows_front || question.shows_all;
  if (shows_front) {
    TableStyle of_front = style;
    of_front.is_comparison = false;
    of_front.is_front = true;
    page.front = front_text(answer, of_front, legend);
  }
  page.heading = prose(heading_text(answer, question) + legend_text(legend) + table.common, width);
  page.columns = table.heading + "\n";
  page.rows = table.rows;
  for (std::size_t row = 0; row < answer.best.size(); ++row) {
    if (&*answer.best[row] == &answer.best[row].cluster->result.best.front()) {
      page.needed.push_back(row);
    }
  }
  page.start = start_text(answer, question, width);
  if (answer.is_comparison()) {
    std::int64_t considered = 0;
    double seconds = 0;
    for (ClusterAnswer const& cluster : answer.clusters) {
      considered += cluster.result.considered;
      seconds += cluster.seconds;
    }
    page.searched_in_all = counted(considered, "plan") + " searched in " + decimals(seconds, 2) +
                           " s on " + counted(answer.clusters.size(), "cluster") + "\n";
  }
  auto const launched = launched_plan(answer, question.rank);
  FoundPlan const& started = page.start.empty() ? *answer.best.front() : *launched->plan;
  std::string const whose =
      page.start.empty() ? "the stages of #1:" : "the stages of the plan to start:";
  page.stages = stage_lines(started);
  if (!page.stages.empty()) page.stages.insert(page.stages.begin(), whose);
  std::istringstream policies{
      wrapped(whose + " recompute " + recompute_text(started.config), width, 2)};
  for (std::string line; std::getline(policies, line);) page.policies.push_back(line);
  page.remarks = plan_remarks(answer, question.shows_all);
  std::erase_if(page.remarks,
                [&](PlanRemark const& remark) { return remark.text(page.rows.size()).empty(); });
  page.flags = flags_text(answer, question, width);
  return shows_front ? text_of(page, width) : on_one_screen(std::move(page), width);
}

}  // namespace stagecraft
