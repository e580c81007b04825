#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace stagecraft {

/// A fit of a few unknowns to many rows. An unknown is counted in standard deviations of its prior,
/// whose mean is 0.
struct LeastSquaresProblem {
  /// The deviation of every row, ln(measured / predicted), if the unknowns are as given.
  std::function<std::vector<double>(std::vector<double> const& unknowns)> deviations;
  std::vector<double> weights;       ///< of each row; 0 leaves it out
  std::vector<std::size_t> sources;  ///< of each row: rows of one source may err together
  std::vector<double> least;         ///< of each unknown
  std::vector<double> most;          ///< of each unknown
  std::vector<double> steps;         ///< of each unknown, for its derivative
  /// Standard deviation of a row's deviation; 0: estimated from the deviations.
  double noise = 0;
};

struct LeastSquaresSolution {
  std::vector<double> unknowns;
  std::vector<double> deviations;  ///< of the rows
  /// The standard error of each unknown; 1 says that the rows have added nothing to the prior.
  std::vector<double> standard_errors;
  /// The correlations of two unknowns' errors, row by row.
  std::vector<std::vector<double>> correlations;
  double noise = 0;
};

/// Minimises, over the unknowns z, sum w_i rho(r_i / noise) + sum z_k^2 / 2, by Gauss-Newton steps
/// with Levenberg's damping and derivatives by differences.
///
/// rho is Huber's: squares up to 1.345 noises, straight beyond, so that a run that took five times
/// as long counts little. The noise is estimated as 1.4826 times the median of the deviations'
/// distances from their median, at least 0.5 %, by which repeated runs differ. Standard errors are
/// the larger of two: as if rows erred independently, and as if each source erred as a whole (the
/// sandwich estimate). Sources: Huber 1964, "Robust estimation of a location parameter"; Levenberg
/// 1944; Liang and Zeger 1986, "Longitudinal data analysis using generalized linear models", for
/// the sandwich by sources.
/// Pre: `start` within the bounds; all vectors of rows, and all of unknowns, have one length.
LeastSquaresSolution solve(LeastSquaresProblem const& problem, std::vector<double> start);

}  // namespace stagecraft
