#include "apps/stagecraft/sweep/sweep_output.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>

#include "libsim/report/operation.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/sweep/sweep_columns.hpp"
#include "libsim/sweep/sweep_table.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

NamedColumn const& column_of(ColumnFile const& table, std::string_view name) {
  return *std::find_if(table.columns.begin(), table.columns.end(),
                       [&](NamedColumn const& column) { return column.name == name; });
}

std::vector<std::int64_t> const& integers_of(ColumnFile const& table, std::string_view name) {
  return std::get<std::vector<std::int64_t>>(column_of(table, name).values);
}

std::vector<double> const& reals_of(ColumnFile const& table, std::string_view name) {
  return std::get<std::vector<double>>(column_of(table, name).values);
}

template <typename Number>
std::size_t count_ones(std::vector<Number> const& flags) {
  return static_cast<std::size_t>(std::count(flags.begin(), flags.end(), Number{1}));
}

/// How good a row is; more is better.
double merit_of(ColumnFile const& table, std::size_t row, SweepRank rank) {
  switch (rank) {
    case SweepRank::iteration_seconds:
      return -reals_of(table, "iteration_seconds")[row];
    case SweepRank::mfu:
      return reals_of(table, "mfu")[row];
    case SweepRank::cost:
      return -reals_of(table, "cost_per_trillion_tokens")[row];
    case SweepRank::tokens_per_second_per_gpu:
      break;
  }
  return reals_of(table, "tokens_per_second")[row] / reals_of(table, "gpus")[row];
}

/// The rows that fit, the best first; equal rows keep their order.
std::vector<std::size_t> best_rows(ColumnFile const& table, SweepRank rank, std::size_t most) {
  std::vector<double> const& fits = reals_of(table, "fits");
  std::vector<std::pair<double, std::size_t>> rows;  // of the merit with the other sign
  for (std::size_t row = 0; row < fits.size(); ++row) {
    if (fits[row] == 1) rows.emplace_back(-merit_of(table, row, rank), row);
  }
  auto const end = rows.begin() + static_cast<std::ptrdiff_t>(std::min(most, rows.size()));
  std::partial_sort(rows.begin(), end, rows.end());
  std::vector<std::size_t> best;
  std::transform(rows.begin(), end, std::back_inserter(best),
                 [](auto const& row) { return row.second; });
  return best;
}

char const* superlative_of(SweepRank rank) {
  switch (rank) {
    case SweepRank::iteration_seconds:
      return "shortest iterations";
    case SweepRank::mfu:
      return "highest MFU";
    case SweepRank::cost:
      return "least cost";
    case SweepRank::tokens_per_second_per_gpu:
      break;
  }
  return "most tokens per second and GPU";
}

/// The rows that fit, and those of them for which the allocator was replayed.
struct FitCounts {
  std::size_t all = 0;
  std::size_t by_replay = 0;
};

FitCounts fit_counts(ColumnFile const& table) {
  std::vector<double> const& fits = reals_of(table, "fits");
  std::vector<double> const& reserved = reals_of(table, "reserved_bytes");
  FitCounts counts;
  for (std::size_t row = 0; row < fits.size(); ++row) {
    if (fits[row] != 1) continue;
    ++counts.all;
    if (!std::isnan(reserved[row])) ++counts.by_replay;
  }
  return counts;
}

/// Which rows the table shows the best of, and which verdict says that they fit.
std::string of_those_that_fit(FitCounts const& counts) {
  std::string const text = " of " + std::to_string(counts.all) + " that fit";
  if (counts.by_replay == counts.all) return text + " by the allocator's replay\n";
  std::size_t const by_bytes = counts.all - counts.by_replay;
  std::string const by_counts =
      by_bytes == counts.all ? " by counted bytes"
                             : ", " + std::to_string(by_bytes) + " of them by counted bytes and " +
                                   std::to_string(counts.by_replay) + " by the allocator's replay";
  return text + by_counts +
         "\n(counted bytes are a cheaper verdict: `simulate --require-fit` also replays the "
         "allocator, which may run out)\n";
}

/// The columns that distinguish points.
std::vector<NamedColumn const*> axis_columns_of(ColumnFile const& table) {
  std::vector<NamedColumn const*> columns;
  std::istringstream names{table.attribute("axes")};
  for (std::string name; std::getline(names, name);) columns.push_back(&column_of(table, name));
  return columns;
}

/// "tensor" of "parallel.tensor".
std::string last_part(std::string const& key) { return key.substr(key.rfind('.') + 1); }

/// The last part of a key if no other key has it, otherwise the whole key.
std::string heading_of(NamedColumn const& key, std::vector<NamedColumn const*> const& keys) {
  auto const has_same_end = [&](NamedColumn const* other) {
    return last_part(other->name) == last_part(key.name);
  };
  bool const is_clear = std::count_if(keys.begin(), keys.end(), has_same_end) == 1;
  return is_clear ? last_part(key.name) : key.name;
}

nlohmann::ordered_json value_at(NamedColumn const& column, std::size_t row) {
  if (is_integer_column(column.name)) {
    double const number = std::get<std::vector<double>>(column.values)[row];
    if (std::isnan(number)) return nullptr;
    return static_cast<std::int64_t>(number);
  }
  return std::visit([&](auto const& values) { return nlohmann::ordered_json(values[row]); },
                    column.values);
}

std::string cell_text(NamedColumn const& column, std::size_t row) {
  nlohmann::ordered_json const value = value_at(column, row);
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The columns of costs that a table has, each with its heading: `cost EUR`.
std::vector<std::pair<NamedColumn const*, std::string>> cost_columns(ColumnFile const& table) {
  std::vector<std::pair<NamedColumn const*, std::string>> columns;
  for (auto const& [name, heading] :
       {std::pair{"cost_per_day", "per day"},
        std::pair{"cost_per_trillion_tokens", "per 10^12 tokens"}, std::pair{"cost", "cost"}}) {
    auto const found = std::ranges::find(table.columns, name, &NamedColumn::name);
    if (found == table.columns.end()) continue;
    columns.emplace_back(&*found, found->unit.empty() ? heading : found->unit + " " + heading);
  }
  return columns;
}

std::string best_table(ColumnFile const& table, SweepRank rank) {
  constexpr std::size_t most_shown = 5;
  std::vector<std::size_t> const rows = best_rows(table, rank, most_shown);
  if (rows.empty()) return {};
  std::vector<NamedColumn const*> const keys = axis_columns_of(table);
  std::vector<TextTable::Column> headings{{"index"}};
  for (NamedColumn const* const key : keys)
    headings.push_back({heading_of(*key, keys), Align::left});
  for (char const* const heading :
       {"s", "tokens/s/GPU", "K GPU h/10^12", "MFU %", "waiting %", "peak GiB"}) {
    headings.push_back({heading});
  }
  auto const costs = cost_columns(table);
  for (auto const& [column, heading] : costs) headings.push_back({heading});
  TextTable text{std::move(headings)};
  for (std::size_t const row : rows) {
    std::vector<std::string> cells{std::to_string(integers_of(table, index_column)[row])};
    for (NamedColumn const* const key : keys) cells.push_back(cell_text(*key, row));
    cells.push_back(decimals(reals_of(table, "iteration_seconds")[row], 3));
    cells.push_back(decimals(merit_of(table, row, SweepRank::tokens_per_second_per_gpu), 0));
    cells.push_back(thousand_hours_text(reals_of(table, "gpu_hours_per_trillion_tokens")[row]));
    cells.push_back(decimals(100 * reals_of(table, "mfu")[row], 1));
    cells.push_back(decimals(
        100 * reals_of(table, "waiting_seconds")[row] / reals_of(table, "iteration_seconds")[row],
        1));
    cells.push_back(gibibytes(static_cast<std::int64_t>(reals_of(table, "peak_bytes")[row])));
    for (auto const& [column, heading] : costs) {
      cells.push_back(amount_text(std::get<std::vector<double>>(column->values)[row]));
    }
    text.add_row(std::move(cells));
  }
  return "\n" + std::string{superlative_of(rank)} + of_those_that_fit(fit_counts(table)) +
         text.text();
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds < 120) return decimals(seconds, seconds < 10 ? 1 : 0) + " s";
  if (seconds < 7200) return decimals(seconds / 60, 0) + " minutes";
  if (seconds < 2 * 86400) return decimals(seconds / 3600, 1) + " hours";
  return decimals(seconds / 86400, 1) + " days";
}

std::string sweep_summary(SweepOutcome const& outcome, SweepRank rank) {
  ColumnFile const& table = outcome.table;
  std::size_t const rows = table.columns.front().rows();
  std::string text = outcome.output.string() + ": " + counted(rows, "row") + " of " +
                     counted(outcome.points, "point") + " (" + std::to_string(outcome.excluded) +
                     " excluded by where)";
  if (table.attribute("shard") != Shard{}.text()) text += ", shard " + table.attribute("shard");
  text += "; " + std::to_string(count_ones(integers_of(table, valid_column))) + " possible, " +
          std::to_string(count_ones(reals_of(table, "fits"))) + " fit\n";
  if (outcome.computed > 0) {
    text += std::to_string(outcome.computed) + " computed in " + decimals(outcome.seconds, 2) +
            " s (" + decimals(static_cast<double>(outcome.computed) / outcome.seconds, 0) +
            " per second)\n";
  }
  return text + best_table(table, rank);
}

std::vector<std::string> warning_lines(SweepOutcome const& outcome) {
  std::vector<std::string> lines;
  if (!outcome.warnings) return lines;
  std::size_t const all = outcome.table.columns.front().rows();
  for (auto const& [warning, rows] : *outcome.warnings) {
    lines.push_back(warning + " (" + std::to_string(rows) + " of " + std::to_string(all) +
                    " rows)");
  }
  return lines;
}

nlohmann::ordered_json to_json(SweepOutcome const& outcome, SweepRank rank) {
  ColumnFile const& table = outcome.table;
  FitCounts const fit = fit_counts(table);
  nlohmann::ordered_json best = nullptr;
  for (std::size_t const row : best_rows(table, rank, 1)) {
    best = nlohmann::ordered_json::object();
    for (NamedColumn const& column : table.columns) best[column.name] = value_at(column, row);
  }
  nlohmann::ordered_json warnings = nullptr;
  if (outcome.warnings) {
    warnings = nlohmann::ordered_json::array();
    for (auto const& [warning, rows] : *outcome.warnings) {
      warnings.push_back({{"warning", warning}, {"rows", rows}});
    }
  }
  return {{"schema", table.schema},
          {"output", outcome.output.string()},
          {"csv", outcome.csv.empty() ? nlohmann::ordered_json(nullptr)
                                      : nlohmann::ordered_json(outcome.csv.string())},
          {"shard", table.attribute("shard")},
          {"points", outcome.points},
          {"excluded", outcome.excluded},
          {"rows", table.columns.front().rows()},
          {"valid", count_ones(integers_of(table, valid_column))},
          {"fit", fit.all},
          {"fit_by_replay", fit.by_replay},
          {"computed", outcome.computed},
          {"seconds", outcome.seconds},
          {"best", best},
          {"warnings", warnings}};
}

}  // namespace stagecraft
