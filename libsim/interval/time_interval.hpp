#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

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
  double bias = 0;   ///< the mean of the residuals
  double scale = 0;  ///< the interval's half width, in relative errors (ErrorTerms)
  /// Standard deviation of the difference of two residuals of one group.
  double difference = 0;
  double coverage = 0;  ///< share of the units that it covers, each left out in its turn
};

/// The 90 % quantile of the standard normal distribution: 80 % of it lie within plus or minus this.
inline constexpr double normal_quantile_of_90 = 1.2815515655446004;

/// The fewest units from which an interval of 80 % follows by split conformal prediction.
inline constexpr int fewest_units = 4;

/// The regimes of a text such as configs/residuals.yaml, narrow ones first.
/// \throws ConfigError
std::vector<ResidualRegime> read_regimes(std::string_view text, std::string const& origin);

/// The regimes of configs/residuals.yaml.
std::vector<ResidualRegime> const& residual_regimes();

/// The interval in which a predicted time lies with 80 %, or why there is none.
struct TimeInterval {
  std::optional<std::array<double, 2>> seconds;  ///< low, high
  std::string reason;                            ///< what stands behind it, or why nothing does
  ResidualRegime const* regime = nullptr;        ///< also of runs outside of it; null: none
};

/// The regime that says how far off the prediction of a run may be.
struct RegimeChoice {
  ResidualRegime const* regime = nullptr;   ///< null: none has runs like this
  bool holds_run = false;                   ///< whether the run lies among those of the regime
  ResidualRegime const* closest = nullptr;  ///< the narrowest, whether or not it holds the run
  /// What lies outside of the runs of the narrowest regime, or if the run lies among those of none,
  /// of the widest: see outside_of_measured().
  std::vector<std::string> outside;
};

/// The narrowest regime that has runs like this and among whose runs it lies; the widest if it lies
/// outside of all of them. None has runs on an accelerator or in a precision of which no source was
/// measured, nor runs of models with experts.
RegimeChoice regime_of(TrainingConfig const& config,
                       System const& system,
                       std::vector<ResidualRegime> const& regimes);

/// The interval T exp(bias +- scale x error) of a predicted time T. Empty if the run lies outside
/// what was measured on the accelerator or overrides its constants, unless the stack was fitted to
/// one measured run: the reason then also names what lies outside. How far off predictions were
/// says nothing about runs that are not exchangeable with the measured ones (longer sequences, more
/// GPUs), and their own relative error, which falls as products dominate, would make it narrower
/// there. Source: split conformal prediction of groups of observations, Dunn, Wasserman and Ramdas
/// 2022, "Distribution-free prediction sets for two-layer hierarchical models", arXiv:1809.07441.
TimeInterval time_interval(double seconds,
                           double relative_error,
                           TrainingConfig const& config,
                           System const& system);

/// The interval of the same kind by all measured runs in 16 bits, wherever they ran. Of a run that
/// is not like them it says nothing but how rare it was that a prediction was as far off.
std::array<double, 2> widest_interval(double seconds, double relative_error);

/// The probability that the run predicted to take `shorter` seconds is the faster one of two that
/// differ in the plan only. 1/2 if nothing was measured.
double probability_faster(double shorter, double longer, ResidualRegime const* regime);

}  // namespace stagecraft
