#include "libsim/validation/validation_json.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>

#include "libsim/config/optional_json.hpp"
#include "libsim/host/schemas.hpp"
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
          {"predicted_fits", row.predicted_fits},
          {"measured_fits", row.measured.fits},
          {"by", by},
          {"problem", problem_text(row)}};
}

Json to_json(ValidationSummary const& summary) {
  using Errors = PredictionErrors;
  Json json{{"rows", summary.rows},
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
            {"allocated_p90_percent", percent(summary.allocated_bytes, &Errors::p90)}};
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
  auto warnings = Json::array();
  for (auto const& [warning, rows] : validation.warnings) {
    warnings.push_back({{"warning", warning}, {"rows", rows}});
  }
  out << "\n],\n\"summary\": " << text_of(to_json(summarize(validation)), 1)
      << ",\n\"by\": " << text_of(by, 1) << ",\n\"warnings\": " << text_of(warnings, 1) << "\n}\n";
}

}  // namespace stagecraft
