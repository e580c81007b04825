#include "apps/python/bindings/simulated_run.hpp"

#include "libsim/engine/fullest_stage.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/simulation_json.hpp"

namespace stagecraft::python {

SimulatedRun::SimulatedRun(std::shared_ptr<Run const> run)
    : run_{std::move(run)},
      prediction_{predict(as_settled(run_->ready().training), run_->ready().system)} {}

std::int64_t SimulatedRun::peak_bytes() const { return largest_peak(prediction_.stages).count(); }

std::string const& SimulatedRun::played_document() const {
  std::scoped_lock const lock{mutex_};
  if (!played_) {
    RunConfig const& config = run_->ready();
    TrainingPlan const plan = make_plan(as_settled(config.training));
    Simulation const simulation = simulate(plan, config.system);
    nlohmann::ordered_json json = simulation_results(simulation, plan, config.system);
    json["warnings"] = config.warnings;
    played_ = json.dump();
  }
  return *played_;
}

std::pair<TrainingPlan, Simulation> SimulatedRun::whole(int jobs) const {
  RunConfig const& config = run_->ready();
  TrainingPlan plan = make_plan(as_settled(config.training));
  Simulation simulation = simulate(plan, config.system);
  add_reservations(simulation, plan, config.system, jobs);
  return {std::move(plan), std::move(simulation)};
}

std::string SimulatedRun::document(int jobs) const {
  auto const [plan, simulation] = whole(jobs);
  return simulation_document(simulation, plan, run_->ready()).dump();
}

std::string SimulatedRun::excess(int jobs) const {
  return memory_excess(whole(jobs).second, run_->ready());
}

}  // namespace stagecraft::python
