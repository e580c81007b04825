#include "libsim/report/paper/reproduction.hpp"

#include <algorithm>
#include <cmath>

#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {
namespace {

/// Summarizes the errors that `error_of` gives for the rows.
ErrorSummary summarize(std::vector<ReproductionRow> const& rows,
                       std::optional<double> (ReproductionRow::*error_of)() const) {
  ErrorSummary summary;
  int count = 0;
  for (ReproductionRow const& row : rows) {
    auto const error = (row.*error_of)();
    if (!error) continue;
    summary.mean += std::abs(*error);
    summary.largest = std::max(summary.largest, std::abs(*error));
    ++count;
  }
  if (count > 0) summary.mean /= count;
  return summary;
}

/// The unit in which a quantity is shown: bytes in GiB (small ones in MiB or KiB), times of an
/// iteration in s, short ones in ms, shares in percent.
struct Display {
  double factor;
  int digits;
  std::string_view unit;
};

Display display_of(ReproductionRow const& row) {
  if (row.quantity.ends_with("bytes")) {
    ByteUnit const unit = unit_for(static_cast<std::int64_t>(row.predicted));
    return {1.0 / static_cast<double>(unit.bytes), 3, unit.name};
  }
  constexpr double short_iteration = 1;  // s
  if (row.quantity == "iteration_seconds" && row.predicted >= short_iteration) {
    return {1, 2, "s"};
  }
  if (row.quantity.ends_with("seconds")) return {1e3, 2, "ms"};
  if (row.quantity.ends_with("percent")) return {1, 2, "%"};
  return {100, 1, "%"};  // mfu, hfu
}

/// "+1.25 %", or "+0.8 points" for a share. If the paper gives no number, it is that of the
/// prediction against what was executed; empty if there is neither.
std::string error_text(ReproductionRow const& row) {
  if (!row.published) {
    if (!row.executed || *row.executed == 0) return "";
    return signed_decimals(100 * (row.predicted / *row.executed - 1), 2) + " %";
  }
  if (auto const points = row.error_points()) {
    return signed_decimals(*points, display_of(row).digits) + " points";
  }
  return signed_decimals(row.error_percent().value_or(0), 2) + " %";
}

std::string closing_line(Reproduction const& reproduction) {
  if (std::none_of(reproduction.rows.begin(), reproduction.rows.end(),
                   [](ReproductionRow const& row) { return row.published.has_value(); })) {
    return "";
  }
  auto const points = reproduction.errors_points();
  ErrorSummary const errors = points ? *points : reproduction.errors_percent();
  std::string const unit = points ? " points" : " %";
  return "mean error " + decimals(errors.mean, 2) + unit + ", largest " +
         decimals(errors.largest, 2) + unit + "\n";
}

/// What was not executed and why, in a line.
std::string missing_line(Reproduction const& reproduction) {
  std::vector<NotExecuted> const& missing = reproduction.missing;
  if (missing.empty()) return {};
  std::string text;
  for (NotExecuted const& one : missing) {
    text += (text.empty() ? "not executed: " : ", ") + one.what;
  }
  auto const [fewest, most] = std::ranges::minmax(missing, {}, &NotExecuted::ranks);
  std::string const ranks =
      (fewest.ranks < most.ranks ? std::to_string(fewest.ranks) + " to " : "") +
      std::to_string(most.ranks);
  return text + " (no file of the folder is of " +
         (missing.size() == 1 ? "its plan" : "their plans") + ", on " + ranks + " ranks)\n";
}

}  // namespace

void Reproduction::add(std::string model,
                       std::string case_name,
                       std::string quantity,
                       std::optional<double> published,
                       double predicted) {
  rows.push_back({.model = std::move(model),
                  .case_name = std::move(case_name),
                  .quantity = std::move(quantity),
                  .published = published,
                  .predicted = predicted});
}

bool ReproductionRow::is_share() const {
  return !quantity.ends_with("bytes") && !quantity.ends_with("seconds");
}

std::optional<double> ReproductionRow::error_percent() const {
  if (!published || *published == 0) return std::nullopt;
  return 100 * (predicted / *published - 1);
}

std::optional<double> ReproductionRow::error_points() const {
  if (!published || !is_share()) return std::nullopt;
  return (predicted - *published) * display_of(*this).factor;
}

ErrorSummary Reproduction::errors_percent() const {
  return summarize(rows, &ReproductionRow::error_percent);
}

std::optional<ErrorSummary> Reproduction::errors_points() const {
  if (!std::all_of(rows.begin(), rows.end(), [](auto const& row) { return row.is_share(); })) {
    return std::nullopt;
  }
  return summarize(rows, &ReproductionRow::error_points);
}

std::string to_text(Reproduction const& reproduction) {
  bool const has_stages = std::any_of(reproduction.rows.begin(), reproduction.rows.end(),
                                      [](auto const& row) { return row.stage.has_value(); });
  bool const has_executed = std::any_of(reproduction.rows.begin(), reproduction.rows.end(),
                                        [](auto const& row) { return row.executed.has_value(); });
  using Row = ReproductionRow const&;
  auto const number = [](Row row, std::optional<double> value) {
    Display const display = display_of(row);
    return value ? decimals(*value * display.factor, display.digits) : "";
  };
  std::vector<ColumnOf<ReproductionRow>> const columns{
      {"model", [](Row row) { return row.model; }, Align::left},
      {"case", [](Row row) { return row.case_name; }, Align::left},
      {"quantity", [](Row row) { return row.quantity; }, Align::left},
      {"stage", [](Row row) { return row.stage ? std::to_string(*row.stage) : ""; }, Align::right,
       has_stages},
      {"published", [&](Row row) { return number(row, row.published); }},
      {"predicted", [&](Row row) { return number(row, row.predicted); }},
      {"executed", [&](Row row) { return number(row, row.executed); }, Align::right, has_executed},
      {"", [](Row row) { return std::string{display_of(row).unit}; }, Align::left},
      {"error", error_text}};
  std::string text = reproduction.name + ": " + reproduction.title + "\n" +
                     table_of(columns, reproduction.rows).text() + closing_line(reproduction);
  for (std::string const& note : reproduction.notes) text += note + "\n";
  return text + missing_line(reproduction);
}

std::string to_csv(Reproduction const& reproduction) {
  std::string text = "model,case,quantity,stage,published,predicted,error_percent";
  text += reproduction.has_executed ? ",executed\n" : "\n";
  for (ReproductionRow const& row : reproduction.rows) {
    auto const optional = [](std::optional<double> value) {
      return value ? nlohmann::json(*value).dump() : std::string{};
    };
    text += row.model + ',' + row.case_name + ',' + row.quantity + ',' +
            (row.stage ? std::to_string(*row.stage) : "") + ',' + optional(row.published) + ',' +
            optional(row.predicted) + ',' + optional(row.error_percent()) +
            (reproduction.has_executed ? ',' + optional(row.executed) : "") + '\n';
  }
  return text;
}

nlohmann::ordered_json to_json(std::vector<Reproduction> const& reproductions) {
  using Json = nlohmann::ordered_json;
  Json json{{"schema", reproduction_schema}};
  Json errors = Json::object();
  Json notes = Json::object();
  for (Reproduction const& reproduction : reproductions) {
    Json rows = Json::array();
    for (ReproductionRow const& row : reproduction.rows) {
      Json entry = {{"model", row.model}, {"case", row.case_name}, {"quantity", row.quantity}};
      if (row.stage) entry["stage"] = *row.stage;
      entry["published"] = row.published;
      entry["predicted"] = row.predicted;
      entry["error_percent"] = row.error_percent();
      if (row.is_share()) entry["error_points"] = row.error_points();
      if (reproduction.has_executed) entry["executed"] = row.executed;
      rows.push_back(entry);
    }
    json[reproduction.name] = rows;
    ErrorSummary const percent = reproduction.errors_percent();
    Json& summary = errors[reproduction.name];
    summary = {{"mean_percent", percent.mean}, {"max_percent", percent.largest}};
    if (auto const points = reproduction.errors_points()) {
      summary["mean_points"] = points->mean;
      summary["max_points"] = points->largest;
    }
    if (!reproduction.has_executed) continue;
    notes[reproduction.name] = reproduction.notes;
    for (NotExecuted const& missing : reproduction.missing) {
      notes[reproduction.name].push_back("not executed: " + missing.what + " (plan " +
                                         missing.plan + ")");
    }
  }
  json["errors"] = errors;
  if (!notes.empty()) json["executed"] = notes;
  return json;
}

}  // namespace stagecraft
