#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libsim/validation/prediction_errors.hpp"
#include "libsim/validation/validation.hpp"

namespace stagecraft {

/// How well the plans that compete are ranked, over groups of at least fewest_ranked_runs rows with
/// a measured time and a prediction.
struct RankingSummary {
  std::int64_t groups = 0;
  double mean_regret = 0;                  ///< fraction
  double largest_regret = 0;               ///< fraction
  std::optional<double> rank_correlation;  ///< mean over the groups that have one
};

/// Statistics over the rows of a validation. A figure is nullopt if nothing was measured for it.
struct ValidationSummary {
  std::int64_t rows = 0;      ///< all, also those with a problem
  std::int64_t problems = 0;  ///< rows with a problem; left out of all that follows
  std::int64_t timed = 0;     ///< rows with a measured time: those that the errors are of
  std::optional<PredictionErrors> time;
  std::optional<RankingSummary> ranking;
  std::int64_t verdicts = 0;        ///< rows with a measured verdict of fit
  std::int64_t wrong_fits = 0;      ///< said to fit, and did not
  std::int64_t wrong_refusals = 0;  ///< said not to fit, and did
  std::optional<PredictionErrors> allocated_bytes;
  std::optional<PredictionErrors> reserved_bytes;
  std::optional<PredictionErrors> first_allocated_bytes;
  std::optional<PredictionErrors> resident_bytes;

  std::int64_t intervals = 0;  ///< timed rows with an interval
  std::int64_t covered = 0;    ///< of them, whose measured time is in it

  /// The fraction of measured times that are in their intervals.
  std::optional<double> interval_coverage() const;
  /// The fraction of right verdicts.
  std::optional<double> fit_accuracy() const;
};

ValidationSummary summarize(std::vector<ValidatedRow const*> const& rows);
/// Sums up all rows.
ValidationSummary summarize(Validation const& validation);

/// The rows with one value of one key.
struct Regime {
  std::string key;
  std::string value;
  ValidationSummary summary;
};

/// The regimes of each key, in the order of the keys; within a key by value, numbers as numbers.
std::vector<Regime> regimes_of(Validation const& validation);

}  // namespace stagecraft
