#include "libsim/report/simulation_document.hpp"

#include "libsim/interval/measured_range.hpp"
#include "libsim/report/interval_report.hpp"
#include "libsim/report/simulation_json.hpp"

namespace stagecraft {

nlohmann::ordered_json simulation_results(Simulation const& simulation,
                                          TrainingPlan const& plan,
                                          System const& system) {
  nlohmann::ordered_json json = to_json(simulation, plan);
  put_interval(json, interval_of(simulation, plan.config, system));
  json["not_validated_for"] = unmeasured_settings(plan.config, system);
  return json;
}

nlohmann::ordered_json simulation_document(Simulation const& simulation,
                                           TrainingPlan const& plan,
                                           RunConfig const& run) {
  nlohmann::ordered_json json = simulation_results(simulation, plan, run.system);
  json["config"] = to_json(run);
  json["warnings"] = run.warnings;
  return json;
}

}  // namespace stagecraft
