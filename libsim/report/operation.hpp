#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libsim/units/units.hpp"

namespace stagecraft {

/// What a run costs its owner beside time, as the owner says it; what is not given is not computed.
struct OperatingRates {
  std::optional<double> price;              ///< per GPU hour
  std::string currency;                     ///< of the price, as it was written; may be empty
  std::optional<double> watts;              ///< mean power of the node per GPU, while it trains
  double pue = 1;                           ///< power of the building per power of its computers
  std::optional<double> tokens;             ///< the tokens to train on
  std::optional<double> hours_per_failure;  ///< GPU hours between two interruptions of a GPU
  Seconds checkpoint{60};                   ///< how long saving a checkpoint stops training
  Seconds restart{1200};                    ///< how long after an interruption training goes on
};

/// The rates of runs on several systems.
struct SystemRates {
  OperatingRates common;
  std::map<std::string, double> price;  ///< by system, per GPU hour; empty: one for all
  std::map<std::string, double> watts;  ///< likewise

  /// The rates of a system that has these names. A rate that is given by system is one of the named
  /// systems alone.
  OperatingRates of(std::vector<std::string> const& names) const;
};

/// The names by which a system's rates may be given: as it is called on the command line or in a
/// file, that file's name without ending, and the name inside.
std::vector<std::string> names_of_system(std::string const& given, std::string const& name);

/// How interruptions and checkpoints slow a job down.
struct Goodput {
  double share = 1;          ///< of the time that the job would take without interruptions
  Seconds between_failures;  ///< mean time between two interruptions of the job
  Seconds interval;          ///< useful time between two checkpoints
};

/// The goodput of a job whose interruptions come at a constant rate, with checkpoints at the
/// interval that costs least: tau / (M e^(R/M) (e^((tau + delta)/M) - 1)).
///
/// Pre: gpus >= 1, hours_per_failure > 0, checkpoint >= 0, restart >= 0.
/// Source: Daly 2006, "A higher order estimate of the optimum checkpoint interval for restart
/// dumps".
Goodput goodput_of(int gpus, double hours_per_failure, Seconds checkpoint, Seconds restart);

/// The figures of a run: of one iteration, and of the whole training if `tokens` is given.
struct OperatingFigures {
  double gpu_hours_per_trillion_tokens = 0;  ///< without interruptions
  std::optional<double> cost_per_day;
  std::optional<double> cost_per_trillion_tokens;  ///< interruptions counted, as in `cost`
  std::optional<double> cost_per_iteration;
  std::optional<double> joules_per_iteration;  ///< what the building takes: PUE is counted
  std::optional<double> joules_per_token;
  std::optional<Goodput> goodput;
  std::optional<double> days;  ///< interruptions counted if their rate is given
  std::optional<double> cost;
  std::optional<double> joules;
};

OperatingFigures operating_figures(double iteration_seconds,
                                   double tokens_per_second,
                                   int gpus,
                                   OperatingRates const& rates);

/// GPU hours of training on 10^12 tokens, without interruptions.
double gpu_hours_per_trillion_tokens(double tokens_per_second, int gpus);

/// Thousands of GPU hours for people: `21.9`, and from 1,000 on `1,736`.
std::string thousand_hours_text(double gpu_hours);

/// An amount of money for people: `13.96`, and from 1,000 on `1,331,193`.
std::string amount_text(double amount);

/// A goodput for people: its share and the two times.
std::string goodput_text(Goodput const& goodput);

/// Lines for people; empty if nothing was asked for.
std::string operating_text(OperatingFigures const& figures, OperatingRates const& rates);

/// Figures that were not computed are null.
nlohmann::ordered_json to_json(OperatingFigures const& figures, OperatingRates const& rates);

}  // namespace stagecraft
