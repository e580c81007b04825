#include "libsim/report/comparison_text.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/optional_json.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

namespace {

/// Further ops are only in --json.
constexpr std::size_t most_ops_shown = 24;

/// The change in percent of `a`; empty if `a` is so small that tables show it as 0.
std::string change(double a, double b) {
  constexpr double least_shown = 0.5e-6;  // s
  if (!(a >= least_shown)) return "";
  return signed_decimals(100 * (b - a) / a, 2);
}

std::string length_text(double seconds) { return readable_text(Seconds{std::abs(seconds)}); }

/// "+6.48 ms"
std::string signed_time(double seconds) { return (seconds < 0 ? '-' : '+') + length_text(seconds); }

/// "stage 4", or "stages 0, 4 and 7".
std::string stages_text(std::vector<std::int32_t> const& stages) {
  std::string text = stages.size() == 1 ? "stage " : "stages ";
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (i > 0) text += i + 1 == stages.size() ? " and " : ", ";
    text += std::to_string(stages[i]);
  }
  return text;
}

std::string header(Comparison const& comparison) {
  std::string text;
  for (std::size_t const side : {0U, 1U}) {
    TraceMeta const& meta = comparison.meta[side];
    text += std::string{side == 0 ? "A" : "B"} + "  " + comparison.files[side] + ": " +
            std::string{name_of(meta.clock)} + " on " + printable(meta.device) + ", iteration " +
            decimals(comparison.iteration_seconds[side], 6) + " s\n";
  }
  if (!comparison.same_plan())
    text += "The traces are of two plans, so they differ not only in how they ran.\n";
  if (comparison.changes && !comparison.changes->empty()) {
    text += "keys that differ, A -> B:\n" + changes_text(*comparison.changes);
  }
  for (std::size_t const side : {0U, 1U}) {
    if (comparison.stages_alone[side].empty()) continue;
    text += std::string{"Left out, only in "} + (side == 0 ? "A" : "B") + ": " +
            stages_text(comparison.stages_alone[side]) + ".\n";
  }
  return text;
}

/// Consecutive ranks of a stage with equal peaks: [first, last).
struct EqualRanks {
  std::vector<RankComparison>::const_iterator first;
  std::vector<RankComparison>::const_iterator last;

  /// "4", or "4-7".
  std::string text() const {
    std::string const from = std::to_string(first->rank);
    return last - first == 1 ? from : from + "-" + std::to_string((last - 1)->rank);
  }
};

std::vector<EqualRanks> equal_ranks(std::vector<RankComparison> const& ranks) {
  std::vector<EqualRanks> all;
  for (auto first = ranks.begin(); first != ranks.end();) {
    auto last = first;
    while (last != ranks.end() && last->stage == first->stage &&
           last->rank - first->rank == last - first && last->at_peak == first->at_peak) {
      ++last;
    }
    all.push_back({first, last});
    first = last;
  }
  return all;
}

std::string memory_table(Comparison const& comparison) {
  std::int64_t largest = 0;
  CategoryBytes sum;
  for (RankComparison const& rank : comparison.ranks) {
    largest = std::max({largest, rank.at_peak[0].sum(), rank.at_peak[1].sum()});
    sum += rank.at_peak[0] + rank.at_peak[1];
  }
  ByteUnit const unit = unit_for(largest);
  std::vector<CategoryRow> const shown = category_columns(sum);
  std::vector<TextTable::Column> columns{
      {"stage"}, {"rank"}, {"", Align::left}, {"peak " + std::string{unit.name}}};
  for (CategoryRow const& row : shown) columns.push_back({std::string{row.heading}});
  TextTable table{columns};
  bool is_first = true;
  for (EqualRanks const& ranks : equal_ranks(comparison.ranks)) {
    RankComparison const& rank = *ranks.first;
    if (!std::exchange(is_first, false)) table.add_rule();
    auto const add = [&](std::string const& what, auto value) {
      std::vector<std::string> cells{std::to_string(rank.stage), ranks.text(), what};
      cells.push_back(value(rank.at_peak[0].sum(), rank.at_peak[1].sum()));
      for (CategoryRow const& row : shown) {
        cells.push_back(value(rank.at_peak[0][row.category], rank.at_peak[1][row.category]));
      }
      table.add_row(cells);
    };
    add("A", [&](std::int64_t a, std::int64_t) { return in_unit(unit, a); });
    add("B", [&](std::int64_t, std::int64_t b) { return in_unit(unit, b); });
    add("B - A bytes", [](std::int64_t a, std::int64_t b) { return std::to_string(b - a); });
  }
  return table.text();
}

std::vector<std::string> time_cells(Pair<double> const& time) {
  return {decimals(time[0], 6), decimals(time[1], 6), signed_decimals(time[1] - time[0], 6),
          change(time[0], time[1])};
}

/// Lists what the stage computes and what it waits for; the times sum to the iteration.
std::string stage_table(Comparison const& comparison) {
  TextTable table{{{"phase", Align::left}, {"A s"}, {"B s"}, {"B - A s"}, {"%"}}};
  auto const add = [&](std::string const& name, Pair<double> const& time) {
    std::vector<std::string> cells = time_cells(time);
    cells.insert(cells.begin(), printable(name));
    table.add_row(cells);
  };
  for (Contribution const& part : comparison.contributions) add(part.phase, part.seconds);
  table.add_rule();
  add("iteration", comparison.iteration_seconds);
  return table.text() + std::string{waiting_words} + "A " +
         decimals(comparison.waiting_seconds[0], 6) + " s, B " +
         decimals(comparison.waiting_seconds[1], 6) + " s\n";
}

std::string op_table(Comparison const& comparison) {
  TextTable table{{{"stream", Align::left},
                   {"phase", Align::left},
                   {"op", Align::left},
                   {"A s"},
                   {"B s"},
                   {"B - A s"},
                   {"%"}}};
  std::size_t const shown = std::min(comparison.ops.size(), most_ops_shown);
  for (std::size_t i = 0; i < shown; ++i) {
    OpComparison const& op = comparison.ops[i];
    std::vector<std::string> cells = time_cells(op.seconds);
    cells.insert(cells.begin(), {printable(op.stream), printable(op.phase), printable(op.op)});
    table.add_row(cells);
  }
  std::string text = table.text();
  if (shown < comparison.ops.size()) {
    text += "and " + std::to_string(comparison.ops.size() - shown) +
            " more that take less time; --json has them all\n";
  }
  return text;
}

std::string explain_memory(Comparison const& comparison, std::string const& other) {
  RankComparison const* furthest = nullptr;
  std::int64_t most = 0;
  for (RankComparison const& rank : comparison.ranks) {
    std::int64_t const apart = std::abs(rank.at_peak[1].sum() - rank.at_peak[0].sum());
    if (apart <= most) continue;
    most = apart;
    furthest = &rank;
  }
  if (furthest == nullptr) return "Memory peaks are equal to the byte.";
  CategoryRow const category = std::ranges::max(categories, {}, [&](CategoryRow const& row) {
    return std::abs(furthest->at_peak[1][row.category] - furthest->at_peak[0][row.category]);
  });
  std::int64_t const bytes = furthest->at_peak[1].sum() - furthest->at_peak[0].sum();
  return "Memory peaks differ most on stage " + std::to_string(furthest->stage) + ": " + other +
         " holds " + size_text(std::abs(bytes)) + (bytes > 0 ? " more" : " less") +
         ", most of it " + std::string{category.name} + ".";
}

/// The op of a phase that differs most, e.g. "; there attention qkv differs most, +100 ms ...".
std::string explain_phase(Comparison const& comparison, std::string const& phase) {
  OpComparison const* furthest = nullptr;
  for (OpComparison const& op : comparison.ops) {
    if (op.phase != phase) continue;
    if (furthest == nullptr || std::abs(op.seconds[1] - op.seconds[0]) >
                                   std::abs(furthest->seconds[1] - furthest->seconds[0])) {
      furthest = &op;
    }
  }
  if (furthest == nullptr || furthest->seconds[0] == furthest->seconds[1]) return "";
  return "; there " + readable_name(printable(furthest->op)) + " differs most, " +
         signed_time(furthest->seconds[1] - furthest->seconds[0]) + " over all stages";
}

}  // namespace

std::string explain_difference(Comparison const& comparison, std::string const& other) {
  double const difference = comparison.iteration_seconds[1] - comparison.iteration_seconds[0];
  std::string text;
  if (difference == 0) {
    text = "Both iterations take the same time.";
  } else {
    text = other + "'s iteration is " + length_text(difference) + " (" +
           decimals(std::abs(comparison.iteration_percent().value_or(0)), 2) + " %) " +
           (difference > 0 ? "longer" : "shorter") + " than A's. On stage " +
           std::to_string(comparison.stage) + ", the busiest of A:";
    std::string separator = " ";
    for (std::size_t i = 0; i < std::min<std::size_t>(3, comparison.contributions.size()); ++i) {
      Contribution const& part = comparison.contributions[i];
      if (part.difference() == 0) break;
      text +=
          separator + readable_name(printable(part.phase)) + ' ' + signed_time(part.difference());
      separator = ", ";
    }
    if (comparison.same_detail) {
      text += explain_phase(comparison, comparison.contributions.front().phase);
    }
    text += ".";
  }
  if (!comparison.same_detail) {
    text +=
        " One trace has whole chunks and the other has ops: for times by op, record both at the "
        "same detail.";
  }
  return text + " " + explain_memory(comparison, other);
}

namespace {

std::string explain_rows(Comparison const& comparison) {
  if (comparison.rows.empty()) {
    return comparison.same_plan() ? "Rows were not compared: the traces have two levels of detail."
                                  : "Rows were not compared: the traces are of two plans.";
  }
  std::string text;
  auto const add = [&](std::string_view what, std::optional<RowDifference> RowComparison::*which) {
    auto const found = std::ranges::find_if(
        comparison.rows, [&](RowComparison const& rows) { return (rows.*which).has_value(); });
    if (found == comparison.rows.end()) return;
    RowDifference const& first = *((*found).*which);
    text += std::string{text.empty() ? "" : " "} + std::string{what} + " first on stage " +
            std::to_string(found->stage) + ", row " + std::to_string(first.row) + ": " +
            first.what + ".";
  };
  add("The work differs", &RowComparison::order);
  add("The sizes of the work differ", &RowComparison::size);
  add("Memory over the iteration differs", &RowComparison::memory);
  if (text.empty()) {
    text =
        "All rows are the same work in the same order, with the same memory in every category but "
        "workspace, which each backend declares for itself and which is not compared.";
  }
  std::int64_t start = 0;
  std::int64_t duration = 0;
  for (RowComparison const& rows : comparison.rows) {
    start = std::max(start, rows.start_apart);
    duration = std::max(duration, rows.duration_apart);
  }
  if (start == 0 && duration == 0) return text + " All starts and durations are equal.";
  return text + " Starts differ by up to " + length_text(to_seconds(SimTime{start})) +
         ", durations by up to " + length_text(to_seconds(SimTime{duration})) + ".";
}

}  // namespace

std::string comparison_tables(Comparison const& comparison, int width) {
  return header(comparison) + "\nmemory at the peak\n" + memory_table(comparison) + "\n" +
         wrapped("time of stage " + std::to_string(comparison.stage) +
                     ", the busiest of A; transfer and data_parallel: only what no computation "
                     "hides; host_wait: until the host has issued kernels; bubble: for other "
                     "stages",
                 width) +
         stage_table(comparison) + "\nops, all stages that both have together\n" +
         op_table(comparison) + "\n" + wrapped(explain_difference(comparison), width) +
         wrapped(explain_rows(comparison), width);
}

namespace {

nlohmann::ordered_json rows_json(Comparison const& comparison) {
  auto const difference = [](RowDifference const& first) {
    return nlohmann::ordered_json{{"row", first.row}, {"what", first.what}};
  };
  return list_of(comparison.rows, [&](RowComparison const& rows) -> nlohmann::ordered_json {
    return {{"ranks", rows.ranks},
            {"stage", rows.stage},
            {"order", part_or_null(rows.order, difference)},
            {"size", part_or_null(rows.size, difference)},
            {"memory", part_or_null(rows.memory, difference)},
            {"start_apart_seconds", to_seconds(SimTime{rows.start_apart})},
            {"duration_apart_seconds", to_seconds(SimTime{rows.duration_apart})}};
  });
}

}  // namespace

nlohmann::ordered_json to_json(Comparison const& comparison) {
  auto const rank_json = [](RankComparison const& rank) -> nlohmann::ordered_json {
    nlohmann::ordered_json by_category;
    for (auto const& [category, name] : EnumNames<Category>::all) {
      by_category[std::string{name}] = {rank.at_peak[0][category], rank.at_peak[1][category]};
    }
    return {{"rank", rank.rank},
            {"stage", rank.stage},
            {"peak_bytes", {rank.at_peak[0].sum(), rank.at_peak[1].sum()}},
            {"by_category", by_category}};
  };
  auto const op_json = [](OpComparison const& op) -> nlohmann::ordered_json {
    return {{"op", op.op}, {"phase", op.phase}, {"stream", op.stream}, {"seconds", op.seconds}};
  };
  auto const phase_json = [](Contribution const& part) -> nlohmann::ordered_json {
    return {{"phase", part.phase}, {"seconds", part.seconds}};
  };
  auto const& meta = comparison.meta;
  return {
      {"schema", comparison_schema},
      {"same_plan", comparison.same_plan()},
      {"plans", {meta[0].plan, meta[1].plan}},
      {"files", comparison.files},
      {"changes", comparison.changes ? to_json(*comparison.changes) : nullptr},
      {"clocks", {name_of(meta[0].clock), name_of(meta[1].clock)}},
      {"iteration_seconds", comparison.iteration_seconds},
      {"iteration_percent", comparison.iteration_percent()},
      {"stages_alone", comparison.stages_alone},
      {"ranks", list_of(comparison.ranks, rank_json)},
      {"ops", list_of(comparison.ops, op_json)},
      {"rows", rows_json(comparison)},
      {"same_work", comparison.rows.empty() ? nlohmann::ordered_json(nullptr)
                                            : nlohmann::ordered_json(comparison.is_same_work())},
      {"stage", comparison.stage},
      {"waiting_seconds", comparison.waiting_seconds},
      {"phases", list_of(comparison.contributions, phase_json)},
      {"explanation", explain_difference(comparison)},
      {"rows_explanation", explain_rows(comparison)}};
}

}  // namespace stagecraft
