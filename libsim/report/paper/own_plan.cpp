#include "libsim/report/paper/own_plan.hpp"

#include <string>

#include "libsim/config/problem.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

TrainingPlan plan_of_configuration(TraceReader const& trace) {
  RunConfig const run = parse_run_config(trace.meta().config, trace.name(), {});
  return make_plan(settled(run.training, run.system));
}

void require_own_plan(TraceReader const& trace) {
  TraceMeta const& meta = trace.meta();
  std::string made;
  try {
    made = fingerprint(plan_of_configuration(trace));
  } catch (ConfigError const& error) {
    throw TraceFileError{trace.name(), std::string{"has a configuration that cannot be read ("} +
                                           error.what() + "); --force compares it anyway"};
  }
  if (made == meta.plan) return;
  throw TraceFileError{trace.name(), "says that it is of plan " + meta.plan +
                                         ", but its configuration makes plan " + made +
                                         "; --force compares it anyway"};
}

}  // namespace stagecraft
