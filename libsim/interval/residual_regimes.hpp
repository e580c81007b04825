#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// Measured runs that a prediction is like, and how far off the predictions of these runs were.
///
/// Residuals are ln(measured / predicted). They are of groups that constants were not fitted on.
/// A unit is what errs together: a group of runs if the regime is one system with one stack, else a
/// source (data set, cluster and software).
struct ResidualRegime {
  std::string system;       ///< its name; empty: any
  std::string software;     ///< its name; empty: any
  std::string accelerator;  ///< a part of its name, such as A100; empty: any
  int units = 0;
  double bias = 0;   ///< of the residuals
  double scale = 0;  ///< the interval's half width, in relative errors (ErrorTerms)
  /// Standard deviation of the difference of two residuals of one group.
  double difference = 0;
  double coverage = 0;  ///< of the units, each left out in its turn
};

/// The fewest units from which an interval of 80 % follows by split conformal prediction.
inline constexpr int fewest_units = 4;

/// The regimes of a text such as configs/residuals.yaml, narrow ones first.
/// \throws ConfigError
std::vector<ResidualRegime> read_regimes(std::string_view text, std::string const& origin);

/// Those of configs/residuals.yaml.
std::vector<ResidualRegime> const& residual_regimes();

}  // namespace stagecraft
