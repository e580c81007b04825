#include "libsim/fit/stack_factor.hpp"

#include <algorithm>
#include <utility>

#include "libsim/config/option_problem.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/fit/one_run.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/hardware/tunable_constants.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

[[noreturn]] void refuse(Seconds measured, std::string accepted) {
  throw ConfigError{
      {option_problem("--measured", "'" + exact_text(measured) + "'", std::move(accepted))}};
}

}  // namespace

StackFactor fit_factor(RunConfig run, Seconds measured, std::string const& name) {
  SettledConfig const training = settled(run.training, run.system);
  Sourced<double>& factor = run.system.software.factor;
  StackFactor result;
  result.prior = factor.value;
  result.measured = measured.value;
  Simulation const before = simulate(make_plan(training), run.system);
  result.predicted_before = to_seconds(before.iteration);
  TimeInterval const interval = interval_of(before, run.training, run.system);
  result.interval = interval.seconds;
  result.interval_reason = interval.reason;
  result.widest = widest_interval(result.predicted_before, before.relative_error);
  double const least = mfu_causal(before, run.training) * result.predicted_before;
  if (measured.value < least) {
    refuse(measured, "at least " + readable_text(Seconds{least}) +
                         ", in which the accelerators do the model's FLOPs, with causal attention "
                         "counted half, at their peak");
  }
  factor.value *= measured.value / result.predicted_before;
  factor.source = "One measured iteration of " + name + ", which took " + exact_text(measured);
  mark_as_fitted(run.system.software, factor, name);

  std::vector<TunableConstant> const constants = tunable_constants(run.system);
  auto const range = std::find_if(constants.begin(), constants.end(), [](TunableConstant const& c) {
    return c.key() == "software.factor";
  });
  if (factor.value < range->least() || factor.value > range->most()) {
    refuse(measured, "a thousandth to a thousand times what is predicted (" +
                         readable_text(Seconds{result.predicted_before}) + ")");
  }
  result.predicted = to_seconds(predict(training, run.system).iteration);
  result.interval_after =
      time_interval(result.predicted, before.relative_error, run.training, run.system).seconds;
  result.run = std::move(run);
  return result;
}

}  // namespace stagecraft
