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
               ReservedStages& known,
               TrainingConfig const& config,
               std::vector<StageId> const& changed,
               std::size_t plan,
               Bytes most,
               MayBelong const& may_belong) {
  SettledConfig const settled = as_settled(config);
  Prediction const prediction = predict(settled, request.system);
  Trial trial{.outcome = outcome_of(prediction, plan)};
  trial.is_wanted = may_belong(trial.outcome);
  if (!trial.is_wanted) return trial;
  for (StageId const stage : IdRange<StageId>{static_cast<int>(prediction.stages.size())}) {
    if (counted_of(request, prediction, stage) > most) trial.refused.push_back(stage);
  }
  if (!trial.refused.empty()) return trial;
  TrainingPlan const made = make_plan(settled);
  StageAllocators const allocators{made, request.system};
  auto const reserve = [&](StageId stage, int rank) {
    return known.reserve(allocators, settled, stage, rank);
  };
  for (StageId const stage : changed) {
    StagePrediction const& predicted = prediction.stages[stage.index()];
    if (!accepts(request, config, reserve(stage, predicted.rank), predicted.peak())) {
      trial.refused.push_back(stage);
    }
  }
  if (!trial.refused.empty()) return trial;
  trial.simulation = simulate(made, request.system);
  add_reservations(*trial.simulation, made, request.system, 1, reserve);
  trial.refused = refused_stages(request, config, *trial.simulation);
  return trial;
}

}  // namespace stagecraft
