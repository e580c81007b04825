#include "libsim/search/plan_trial.hpp"

#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/stage_allocators.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/search/device_room.hpp"

namespace stagecraft {
namespace {

Outcome outcome_of(Prediction const& prediction, std::size_t plan) {
  return {.iteration = prediction.iteration,
          .peak = largest_peak(prediction.stages).count(),
          .plan = plan};
}

/// What a stage holds, workspace apart.
Bytes counted_of(SearchRequest const& request, Prediction const& prediction, StageId stage) {
  return Bytes{prediction.stages[stage.index()].peak()} -
         request.system.calibration.workspace.value;
}

/// Simulates all of a plan, and asks its device.
void simulate_fully(Trial& trial, SearchRequest const& request, TrainingConfig const& config) {
  trial.simulation = simulate_with_reservations(request, config);
  trial.refused = refused_stages(request, config, *trial.simulation);
}

}  // namespace

Simulation simulate_with_reservations(SearchRequest const& request,
                                      TrainingConfig const& config,
                                      int jobs) {
  TrainingPlan const plan = make_plan(as_settled(config));
  Simulation simulation = simulate(plan, request.system);
  add_reservations(simulation, plan, request.system, jobs);
  return simulation;
}

Trial try_plan(SearchRequest const& request,
               TrainingConfig const& config,
               std::vector<StageId> const& changed,
               std::size_t plan,
               Bytes most,
               MayBelong const& may_belong) {
  Prediction const prediction = predict(as_settled(config), request.system);
  Trial trial{.outcome = outcome_of(prediction, plan)};
  trial.is_wanted = may_belong(trial.outcome);
  if (!trial.is_wanted) return trial;
  for (StageId const stage : IdRange<StageId>{static_cast<int>(prediction.stages.size())}) {
    if (counted_of(request, prediction, stage) > most) trial.refused.push_back(stage);
  }
  if (trial.refused.empty() && !changed.empty()) {
    TrainingPlan const made = make_plan(as_settled(config));
    StageAllocators const allocators{made, request.system};
    for (StageId const stage : changed) {
      StagePrediction const& predicted = prediction.stages[stage.index()];
      if (!accepts(request, config, allocators.reserve(stage, predicted.rank), predicted.peak())) {
        trial.refused.push_back(stage);
      }
    }
  }
  if (trial.refused.empty()) simulate_fully(trial, request, config);
  return trial;
}

}  // namespace stagecraft
