#pragma once

#include <array>
#include <optional>
#include <string>

#include "libsim/run/run_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The factor of a stack that makes the prediction equal one measured iteration.
struct StackFactor {
  RunConfig run;  ///< the run with the fitted factor
  double prior = 1;
  double predicted_before = 0;                      ///< seconds
  double predicted = 0;                             ///< seconds
  double measured = 0;                              ///< seconds
  std::optional<std::array<double, 2>> interval{};  ///< 80 % of the prediction before, seconds
  std::string interval_reason{};                    ///< what stands behind it, or why there is none
  /// 80 % of the prediction with the factor, seconds; empty if there is none.
  std::optional<std::array<double, 2>> interval_after{};
  /// 80 % of the prediction before by all measured runs, seconds: see widest_interval().
  std::array<double, 2> widest{};

  double value() const { return run.system.software.factor.value; }

  /// Whether the measured time lies in the interval of the prediction, if it has one.
  bool is_expected() const {
    return !interval || (measured >= (*interval)[0] && measured <= (*interval)[1]);
  }

  /// Whether it lies in that of all measured runs, wherever they ran.
  bool is_usual() const { return measured >= widest[0] && measured <= widest[1]; }

  /// Whether the measured time is as close to the predicted one as in nearly all measured runs: of
  /// 1,494 that experiments/validation predicts, all but 4 took 0.75 to 3 times as long.
  bool is_credible() const {
    return measured < 3 * predicted_before && 2 * measured > predicted_before;
  }
};

/// Fits the factor of a run's stack, by which every duration is multiplied, to one measured
/// iteration. `name` names the run in the factor's source.
/// \throws ConfigError  naming `--measured`, if the accelerators cannot be so fast, or the factor is
///                      outside its range.
StackFactor fit_factor(RunConfig run, Seconds measured, std::string const& name);

}  // namespace stagecraft
