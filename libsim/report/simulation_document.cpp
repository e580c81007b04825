#include "libsim/report/simulation_document.hpp"

#include "libsim/config/optional_json.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/report/fit_verdict.hpp"
#include "libsim/report/interval_report.hpp"
#include "libsim/report/simulation_json.hpp"

namespace stagecraft {

nlohmann::ordered_json simulation_results(Simulation const& simulation,
                                          TrainingPlan const& plan,
                                          System const& system) {
  nlohmann::ordered_json json = to_json(simulation, plan);
  put_interval(json, interval_of(simulation, plan.config, system));
  FitProbability const fit = fit_probability_of(simulation, plan.config, system);
  for (std::size_t i = 0; i < fit.stages.size(); ++i) {
    json["stages"][i]["fits_probability"] = fit.stages[i];
  }
  json["verdict"] = name_of(verdict_of(simulation));
  json["fits_probability"] = fit.run;
  json["fits_probability_reason"] = fit.reason;
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
