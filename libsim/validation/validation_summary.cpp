#include "libsim/validation/validation_summary.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "libsim/units/parse_number.hpp"
#include "libsim/validation/ranking.hpp"

namespace stagecraft {
namespace {

std::optional<PredictionErrors> errors_of(std::vector<double> const& ratios) {
  return ratios.empty() ? std::nullopt : std::optional{prediction_errors(ratios)};
}

void add_ratio(std::optional<std::int64_t> predicted,
               std::optional<std::int64_t> measured,
               std::vector<double>& ratios) {
  if (!predicted || !measured) return;
  ratios.push_back(static_cast<double>(*predicted) / static_cast<double>(*measured));
}

std::optional<RankingSummary> ranking_of(std::map<std::string, CompetingRuns> const& groups) {
  RankingSummary ranking;
  double correlations = 0;
  int correlated = 0;
  for (auto const& [name, runs] : groups) {
    if (runs.predicted.size() < fewest_ranked_runs) continue;
    double const of_group = regret(runs);
    ++ranking.groups;
    ranking.mean_regret += of_group;
    ranking.largest_regret = std::max(ranking.largest_regret, of_group);
    if (auto const correlation = rank_correlation(runs)) {
      correlations += *correlation;
      ++correlated;
    }
  }
  if (ranking.groups == 0) return std::nullopt;
  ranking.mean_regret /= static_cast<double>(ranking.groups);
  if (correlated > 0) ranking.rank_correlation = correlations / correlated;
  return ranking;
}

/// Numbers in their order before texts in theirs.
struct ValueOrder {
  bool operator()(std::string const& a, std::string const& b) const {
    auto const x = parse_number<double>(a);
    auto const y = parse_number<double>(b);
    if (x && y && *x != *y) return *x < *y;
    if (x.has_value() != y.has_value()) return x.has_value();
    return a < b;
  }
};

}  // namespace

std::optional<double> ValidationSummary::fit_accuracy() const {
  if (verdicts == 0) return std::nullopt;
  return static_cast<double>(verdicts - wrong_fits - wrong_refusals) /
         static_cast<double>(verdicts);
}

std::optional<double> ValidationSummary::interval_coverage() const {
  if (intervals == 0) return std::nullopt;
  return static_cast<double>(covered) / static_cast<double>(intervals);
}

ValidationSummary summarize(Validation const& validation) {
  std::vector<ValidatedRow const*> rows;
  rows.reserve(validation.rows.size());
  for (ValidatedRow const& row : validation.rows) rows.push_back(&row);
  return summarize(rows);
}

ValidationSummary summarize(std::vector<ValidatedRow const*> const& rows) {
  ValidationSummary summary;
  std::vector<double> times;
  std::vector<double> allocated;
  std::vector<double> reserved;
  std::vector<double> first;
  std::vector<double> resident;
  std::map<std::string, CompetingRuns> groups;
  for (ValidatedRow const* const pointer : rows) {
    ValidatedRow const& row = *pointer;
    ++summary.rows;
    if (!row.problems.empty()) {
      ++summary.problems;
      continue;
    }
    if (auto const ratio = row.time_ratio()) {
      times.push_back(*ratio);
      if (auto const& interval = row.interval_seconds) {
        double const measured = *row.measured.iteration_seconds;
        ++summary.intervals;
        if ((*interval)[0] <= measured && measured <= (*interval)[1]) ++summary.covered;
      }
      if (!row.measured.group.empty()) {
        CompetingRuns& runs = groups[row.measured.group];
        runs.predicted.push_back(*row.predicted_seconds);
        runs.measured.push_back(*row.measured.iteration_seconds);
      }
    }
    add_ratio(row.predicted_allocated_bytes, row.measured.allocated_bytes, allocated);
    add_ratio(row.predicted_reserved_bytes, row.measured.reserved_bytes, reserved);
    add_ratio(row.predicted_first_allocated_bytes, row.measured.first_allocated_bytes, first);
    add_ratio(row.predicted_resident_bytes, row.measured.resident_bytes, resident);
    if (row.measured.fits && row.predicted_fits) {
      ++summary.verdicts;
      if (*row.predicted_fits && !*row.measured.fits) ++summary.wrong_fits;
      if (!*row.predicted_fits && *row.measured.fits) ++summary.wrong_refusals;
    }
  }
  summary.timed = static_cast<std::int64_t>(times.size());
  summary.time = errors_of(times);
  summary.ranking = ranking_of(groups);
  summary.allocated_bytes = errors_of(allocated);
  summary.reserved_bytes = errors_of(reserved);
  summary.first_allocated_bytes = errors_of(first);
  summary.resident_bytes = errors_of(resident);
  return summary;
}

std::vector<Regime> regimes_of(Validation const& validation) {
  std::vector<Regime> regimes;
  for (std::size_t key = 0; key < validation.by.size(); ++key) {
    std::map<std::string, std::vector<ValidatedRow const*>, ValueOrder> parts;
    for (ValidatedRow const& row : validation.rows) {
      if (row.problems.empty()) parts[row.regimes[key]].push_back(&row);
    }
    for (auto const& [value, rows] : parts) {
      regimes.push_back({validation.by[key], value, summarize(rows)});
    }
  }
  return regimes;
}

}  // namespace stagecraft
