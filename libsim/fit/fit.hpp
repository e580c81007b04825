#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libsim/fit/fit_data.hpp"
#include "libsim/validation/prediction_errors.hpp"

namespace stagecraft {

/// A constant to fit, with those that are scaled with it.
struct ConstantChoice {
  std::string key;  ///< dotted, as tunable_constants() has it
  std::vector<std::string> followers;
};

/// The most constants that are fitted unless they are named.
inline constexpr int most_stack_constants = 4;
inline constexpr int most_system_constants = 2;

/// The constant that multiplies every duration.
inline constexpr char const* factor_key = "software.factor";

/// The constants of a fit. Without `keys`: those that the files mark as fitted, the first four of
/// the stack and the first two of the system, or factor_key if none is marked; `left_out` then gets
/// the keys of the others. A constant that is `fitted: with NAME` is scaled with NAME unless it is
/// named itself.
/// \throws ConfigError  naming `--constants`, for a key that is not a constant with one number, that
///     is 0 (a factor cannot change it), or that is named twice.
std::vector<ConstantChoice> choose_constants(System system,
                                             std::vector<std::string> const& keys,
                                             std::vector<std::string>& left_out);

/// A constant after a fit, in its unit.
struct FittedConstant {
  ConstantChoice choice;
  std::string unit;  ///< empty: a plain number
  double value = 0;  ///< the prior if it is not separable
  double prior = 0;
  double spread = 0;  ///< standard deviation of the prior's logarithm
  /// Of the value if all constants are fitted together: the largest of what follows if runs err
  /// independently, if each group errs as a whole (LeastSquaresProblem), and from leaving out each
  /// fold. With one group only the first is known, with one fold only the first two.
  double standard_error = 0;
  bool separable = true;
  /// The constant with whose error this one's goes most together, and the correlation of the two.
  std::string nearest;
  double correlation = 0;
};

/// Groups that a fit to the others predicts.
struct FitFold {
  int fold = 0;
  std::vector<std::string> groups;
  std::size_t runs = 0;
  PredictionErrors errors;
};

struct Fit {
  std::vector<FittedConstant> constants;
  std::vector<FitFold> folds;  ///< without those that have no groups; empty if only one has any
  std::size_t runs = 0;
  std::size_t groups = 0;
  double noise = 0;  ///< standard deviation of ln(measured / predicted), outliers aside
  PredictionErrors before;
  PredictionErrors after;
  std::optional<PredictionErrors> held_out;  ///< errors of the rows of all folds
};

/// A constant is separable if the rows at least halve its prior's standard deviation, all chosen
/// constants being unknown.
inline constexpr double separable_error = 0.5;

/// Fits constants to runs: the least squares of ln(measured / predicted) with a lognormal prior
/// around the value of each constant (see LeastSquaresProblem, default_spread).
///
/// Constants that are not separable go back to their priors, and the others are fitted again. The
/// result is cross-validated: each fold (fold_of) is predicted with a fit to the others. Runs
/// without a group are one group. `progress` is called with the share of the work done and the
/// number of predictions made.
/// Pre: there are runs.
Fit fit(FitData const& data,
        std::vector<ConstantChoice> const& choices,
        int jobs,
        std::function<void(double share, std::int64_t predictions)> const& progress);

/// The system with the values of a fit; `fitted` of each separable constant is `provenance` with
/// its prior. Such a system is not validated.
System fitted_system(System system, Fit const& fit, std::string const& provenance);

}  // namespace stagecraft
