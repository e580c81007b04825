#include "libsim/validation/validation_output.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/units/quantity.hpp"
#include "libsim/validation/ranking.hpp"
#include "libsim/validation/validation_summary.hpp"

namespace stagecraft {

namespace {

using Json = nlohmann::ordered_json;

Json percent(std::optional<double> const& fraction) {
  return part_or_null(fraction, [](double value) { return 100 * value; });
}

/// One error in percent; null if there are none.
Json percent(std::optional<PredictionErrors> const& errors, double PredictionErrors::*which) {
  return part_or_null(errors, [&](PredictionErrors const& all) { return 100 * all.*which; });
}

Json problem_text(ValidatedRow const& row) {
  std::string text;
  for (Problem const& problem : row.problems) {
    text += (text.empty() ? "" : "\n") + problem_line(row, problem);
  }
  return text_or_null(text);
}

Json to_json(ValidatedRow const& row, std::vector<std::string> const& keys) {
  auto const ratio = row.time_ratio();
  auto by = Json::object();
  for (std::size_t i = 0; i < row.regimes.size(); ++i) by[keys[i]] = row.regimes[i];
  return {{"id", text_or_null(row.measured.id)},
          {"group", text_or_null(row.measured.group)},
          {"place", to_string(row.place)},
          {"predicted_seconds", row.predicted_seconds},
          {"measured_seconds", row.measured.iteration_seconds},
          {"error_percent", percent(ratio ? std::optional{*ratio - 1} : std::nullopt)},
          {"relative_error_percent", percent(row.relative_error)},
          {"interval_seconds", row.interval_seconds},
          {"predicted_reserved_bytes", row.predicted_reserved_bytes},
          {"measured_reserved_bytes", row.measured.reserved_bytes},
          {"predicted_allocated_bytes", row.predicted_allocated_bytes},
          {"measured_allocated_bytes", row.measured.allocated_bytes},
          {"predicted_first_allocated_bytes", row.predicted_first_allocated_bytes},
          {"measured_first_allocated_bytes", row.measured.first_allocated_bytes},
          {"predicted_resident_bytes", row.predicted_resident_bytes},
          {"measured_resident_bytes", row.measured.resident_bytes},
          {"predicted_fits", row.predicted_fits},
          {"measured_fits", row.measured.fits},
          {"by", by},
          {"problem", problem_text(row)}};
}

Json to_json(ValidationSummary const& summary) {
  using Errors = PredictionErrors;
  Json json{
      {"rows", summary.rows},
      {"problems", summary.problems},
      {"timed_rows", summary.timed},
      {"mean_percent", percent(summary.time, &Errors::mean)},
      {"median_percent", percent(summary.time, &Errors::median)},
      {"p90_percent", percent(summary.time, &Errors::p90)},
      {"bias_percent", percent(summary.time, &Errors::bias)},
      {"spread_percent", percent(summary.time, &Errors::spread)},
      {"ranked_groups", 0},
      {"regret_mean_percent", nullptr},
      {"regret_max_percent", nullptr},
      {"spearman", nullptr},
      {"fit_accuracy", summary.fit_accuracy()},
      {"interval_coverage", summary.interval_coverage()},
      {"reserved_median_percent", percent(summary.reserved_bytes, &Errors::median)},
      {"reserved_p90_percent", percent(summary.reserved_bytes, &Errors::p90)},
      {"allocated_median_percent", percent(summary.allocated_bytes, &Errors::median)},
      {"allocated_p90_percent", percent(summary.allocated_bytes, &Errors::p90)},
      {"first_allocated_median_percent", percent(summary.first_allocated_bytes, &Errors::median)},
      {"first_allocated_p90_percent", percent(summary.first_allocated_bytes, &Errors::p90)},
      {"resident_median_percent", percent(summary.resident_bytes, &Errors::median)},
      {"resident_p90_percent", percent(summary.resident_bytes, &Errors::p90)}};
  if (summary.ranking) {
    json["ranked_groups"] = summary.ranking->groups;
    json["regret_mean_percent"] = 100 * summary.ranking->mean_regret;
    json["regret_max_percent"] = 100 * summary.ranking->largest_regret;
    json["spearman"] = summary.ranking->rank_correlation;
  }
  return json;
}

/// Bytes that are not UTF-8 can only come from the name of a file.
std::string text_of(Json const& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

constexpr char const* nothing = "-";

std::string percent_text(double fraction) { return decimals(100 * fraction, 1); }

void add_line(std::string const& name, ValidationSummary const& summary, TextTable& table) {
  std::vector<std::string> cells{name, std::to_string(summary.timed)};
  auto const& time = summary.time;
  for (double PredictionErrors::*const which :
       {&PredictionErrors::mean, &PredictionErrors::median, &PredictionErrors::p90}) {
    cells.push_back(time ? percent_text((*time).*which) : nothing);
  }
  cells.push_back(time ? signed_decimals(100 * time->bias, 1) : nothing);
  cells.push_back(time ? percent_text(time->spread) : nothing);
  auto const& ranking = summary.ranking;
  cells.push_back(ranking ? percent_text(ranking->mean_regret) : nothing);
  cells.push_back(ranking ? percent_text(ranking->largest_regret) : nothing);
  cells.push_back(ranking && ranking->rank_correlation ? decimals(*ranking->rank_correlation, 3)
                                                       : nothing);
  table.add_row(std::move(cells));
}

std::string errors_table(ValidationSummary const& all, std::vector<Regime> const& regimes) {
  TextTable table{{{"rows", Align::left},
                   {"timed"},
                   {"mean"},
                   {"median"},
                   {"p90"},
                   {"bias"},
                   {"spread"},
                   {"regret"},
                   {"worst"},
                   {"Spearman"}}};
  add_line("all", all, table);
  std::string key;
  for (Regime const& regime : regimes) {
    if (regime.key != key) table.add_rule();
    key = regime.key;
    add_line(regime.key + "=" + regime.value, regime.summary, table);
  }
  return "errors of the iteration's time and regret, in %\n" + table.text();
}

/// A sentence for each of the other comparisons.
std::string notes(ValidationSummary const& all) {
  std::string text;
  if (all.time && !all.ranking) {
    text += "No group has " + std::to_string(fewest_ranked_runs) +
            " timed rows: regret and Spearman say nothing.\n";
  } else if (all.ranking) {
    text += "In " + counted(all.ranking->groups, "group") + " of at least " +
            std::to_string(fewest_ranked_runs) + " timed rows, the run predicted fastest takes " +
            percent_text(all.ranking->mean_regret) + " % longer than the fastest one, " +
            percent_text(all.ranking->largest_regret) + " % at most.\n";
  }
  if (auto const coverage = all.interval_coverage()) {
    text += percent_text(*coverage) + " % of " + counted(all.intervals, "measured time") +
            (all.intervals == 1 ? " is in its" : " are in their") + " 80 % intervals.\n";
  }
  if (auto const accuracy = all.fit_accuracy()) {
    text += percent_text(*accuracy) + " % of " + counted(all.verdicts, "verdict") +
            " of fit are right; " + std::to_string(all.wrong_fits) + " predicted to fit did not, " +
            std::to_string(all.wrong_refusals) + " predicted not to fit did.\n";
  }
  auto const add_bytes = [&](std::optional<PredictionErrors> const& bytes, char const* what) {
    if (!bytes) return;
    text += std::string{"The error of "} + what + " bytes is " + percent_text(bytes->median) +
            " % in the median, " + percent_text(bytes->p90) + " % at p90.\n";
  };
  add_bytes(all.allocated_bytes, "allocated");
  add_bytes(all.first_allocated_bytes, "the first iteration's allocated");
  add_bytes(all.resident_bytes, "resident");
  return text;
}

std::string worst_rows(Validation const& validation) {
  constexpr std::size_t most = 5;
  std::vector<ValidatedRow const*> rows;
  for (ValidatedRow const& row : validation.rows) {
    if (row.time_ratio()) rows.push_back(&row);
  }
  if (rows.empty()) return {};
  auto const error = [](ValidatedRow const& row) { return std::abs(*row.time_ratio() - 1); };
  std::size_t const count = std::min(most, rows.size());
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count), rows.end(),
                    [&](ValidatedRow const* a, ValidatedRow const* b) {
                      return error(*a) != error(*b) ? error(*a) > error(*b) : a < b;
                    });
  rows.resize(count);
  using Row = ValidatedRow const*;
  std::vector<ColumnOf<Row>> const columns{
      {"place", [](Row row) { return to_string(row->place); }, Align::left},
      {"id", [](Row row) { return printable(row->measured.id); }, Align::left},
      {"group", [](Row row) { return printable(row->measured.group); }, Align::left},
      {"measured s", [](Row row) { return decimals(*row->measured.iteration_seconds, 3); }},
      {"predicted s", [](Row row) { return decimals(*row->predicted_seconds, 3); }},
      {"error %", [](Row row) { return signed_decimals(100 * (*row->time_ratio() - 1), 1); }}};
  return "largest errors\n" + table_of(columns, rows).text();
}

/// Rows whose first problems have one key and accept the same.
struct ProblemKind {
  std::int64_t rows = 0;
  std::size_t first = 0;           ///< row
  std::vector<std::string> found;  ///< each once, in the order of the rows
};

/// Lists what was found in rows of a kind after the first.
std::string others_text(ProblemKind const& kind) {
  constexpr std::size_t most = 4;
  if (kind.rows == 1) return "";
  std::string text = " (" + std::to_string(kind.rows) + " rows";
  for (std::size_t i = 1; i < std::min(most, kind.found.size()); ++i) {
    text += (i == 1 ? "; also " : ", ") + kind.found[i];
  }
  return text + (kind.found.size() > most ? ", ...)" : ")");
}

}  // namespace

void write_json(Validation const& validation, std::ostream& out) {
  out << "{\n\"schema\": \"" << validation_schema << "\",\n\"rows\": [";
  char const* separator = "\n ";
  for (ValidatedRow const& row : validation.rows) {
    out << separator << text_of(to_json(row, validation.by), -1);
    separator = ",\n ";
  }
  auto by = Json::object();
  for (Regime const& regime : regimes_of(validation)) {
    by[regime.key + "=" + regime.value] = to_json(regime.summary);
  }
  auto const warnings = list_of(validation.warnings, [](auto const& warning) -> Json {
    return {{"warning", warning.first}, {"rows", warning.second}};
  });
  out << "\n],\n\"summary\": " << text_of(to_json(summarize(validation)), 1)
      << ",\n\"by\": " << text_of(by, 1) << ",\n\"warnings\": " << text_of(warnings, 1) << "\n}\n";
}

std::string problems_text(Validation const& validation, std::size_t most) {
  using Kind = ProblemKind;
  constexpr std::size_t most_found = 5;
  std::map<std::pair<std::string, std::string>, Kind> kinds;  // by key and accepted
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < validation.rows.size(); ++i) {
    if (validation.rows[i].problems.empty()) continue;
    ++rows;
    Problem const& problem = validation.rows[i].problems.front();
    Kind& kind = kinds[{problem.key, problem.accepted}];
    if (kind.rows++ == 0) kind.first = i;
    bool const is_known = std::ranges::find(kind.found, problem.found) != kind.found.end();
    if (!is_known && kind.found.size() < most_found) kind.found.push_back(problem.found);
  }
  if (rows == 0) return {};
  std::vector<Kind const*> sorted;
  sorted.reserve(kinds.size());
  for (auto const& [name, kind] : kinds) sorted.push_back(&kind);
  std::sort(sorted.begin(), sorted.end(), [](Kind const* a, Kind const* b) {
    return a->rows != b->rows ? a->rows > b->rows : a->first < b->first;
  });
  std::string text = counted(rows, "row") + " left out because of a problem\n";
  for (std::size_t i = 0; i < std::min(most, sorted.size()); ++i) {
    ValidatedRow const& first = validation.rows[sorted[i]->first];
    text += "  " + problem_line(first, first.problems.front()) + others_text(*sorted[i]) + "\n";
  }
  if (sorted.size() > most) {
    text += "  and " + counted(static_cast<std::int64_t>(sorted.size() - most), "other kind") +
            "; --json has the problem of each row\n";
  }
  return text;
}

std::string validation_text(Validation const& validation) {
  constexpr std::size_t most_problems = 10;
  ValidationSummary const all = summarize(validation);
  std::string text = errors_table(all, regimes_of(validation));
  for (std::string const& part :
       {notes(all), worst_rows(validation), problems_text(validation, most_problems)}) {
    if (!part.empty()) text += "\n" + part;
  }
  return text;
}

}  // namespace stagecraft
