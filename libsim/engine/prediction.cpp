#include "libsim/engine/prediction.hpp"

#include <cstddef>

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/engine/relative_error.hpp"
#include "libsim/memory/rank_memory.hpp"
#include "libsim/plan/make_plan.hpp"

namespace stagecraft {

Prediction predict(SettledConfig const& config, System const& system) {
  TrainingPlan const plan = make_plan(config);
  CostedPlan const costed{plan, system};
  std::vector<FullestMemory> const memories = fullest_memory(plan, 1);
  IterationEnd const end = play_to_end(costed.timeline());

  Prediction prediction;
  prediction.loops = end.loops;
  prediction.loops_left_out = end.loops_left_out;
  prediction.iteration = end.period + costed.cost().iteration_overhead();
  prediction.relative_error = relative_error(error_terms(costed, prediction.iteration));
  prediction.stages.reserve(plan.stages.size());
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    StageMemory const& memory = memories[i].memory;
    StagePrediction& stage = prediction.stages.emplace_back();
    stage.at_peak = memory.at_peak;
    stage.at_peak[Category::workspace] += costed.cost().workspace().count();
    stage.activation_peak = memory.activation_peak;
    stage.in_flight_chunks = memory.in_flight_chunks;
    stage.rank = memories[i].rank();
  }
  return prediction;
}

}  // namespace stagecraft
