#include "libsim/engine/prediction.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/priced_plan.hpp"
#include "libsim/engine/rank_track.hpp"
#include "libsim/engine/schedule_loop.hpp"
#include "libsim/engine/task_costs.hpp"
#include "libsim/engine/track_walk.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {
namespace {

/// A schedule is a loop only where its microbatches are alike: a window of stored microbatches
/// (appendix C of the paper) has a period of its own on every stage.
ScheduleLoop loop_of(TrainingConfig const& config) {
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  bool const has_window =
      std::any_of(config.recompute.begin(), config.recompute.end(),
                  [](auto const& policy) { return policy.store_microbatches.count > 0; });
  return has_window ? ScheduleLoop{.shape = shape} : find_loop(shape);
}

TrackEnds walk(TrainingPlan const& plan,
               CostModel const& cost,
               ScheduleLoop const& loop,
               Tracks const& tracks) {
  int const p = plan.config.parallel.pipeline;
  TrackWalkInput input{.tracks = &tracks,
                       .loop = &loop,
                       .activation = {},
                       .gradient = {},
                       .slowdown_millionths = cost.data_parallel_slowdown_millionths()};
  for (int r = 0; r < p; ++r) {
    input.activation.push_back(cost.price_message(plan, r, (r + 1) % p));
    input.gradient.push_back(cost.price_message(plan, r, (r + p - 1) % p));
  }
  return walk_tracks(input);
}

/// Plays what follows the last message: it is in the rank plans' steps.
Timeline play_rest(TrainingPlan const& plan,
                   CostModel const& cost,
                   Tracks const& tracks,
                   std::vector<RankStart> const& starts) {
  std::vector<RankProgram> programs;
  programs.reserve(plan.stages.size());
  for (std::size_t r = 0; r < plan.stages.size(); ++r) {
    programs.push_back({.steps = plan.stages[r].steps,
                        .tasks = plan.stages[r].tasks,
                        .transfers = {},
                        .durations = tracks.ranks[r].durations,
                        .activation = {},
                        .gradient = {}});
  }
  return play({.ranks = programs,
               .messages = 0,
               .p2p = plan.config.schedule.p2p,
               .slowdown_millionths = cost.data_parallel_slowdown_millionths(),
               .starts = starts,
               .groups = &plan.groups});
}

/// Nothing where the loop turns out not to stand for the whole schedule.
std::optional<Prediction> predict(TrainingConfig const& config,
                                  System const& system,
                                  ScheduleLoop const& loop) {
  TrainingPlan plan = make_programs(config);
  CostModel const cost{system, plan};
  TaskCosts prices{plan, cost};
  Tracks const tracks = lay_tracks(plan, loop, prices);
  if (loop.has_loop() && !tracks.laps_are_level) return std::nullopt;
  TrackEnds const ends = walk(plan, cost, loop, tracks);
  Timeline const rest = play_rest(plan, cost, tracks, ends.ranks);

  Prediction prediction;
  prediction.laps = loop.laps;
  prediction.laps_left_out = ends.laps_left_out;
  prediction.iteration = rest.makespan + cost.iteration_overhead();
  prediction.stages.reserve(plan.stages.size());
  for (std::size_t r = 0; r < plan.stages.size(); ++r) {
    StageMemory const& memory = tracks.ranks[r].memory;
    StagePrediction& stage = prediction.stages.emplace_back();
    stage.at_peak = memory.at_peak;
    stage.at_peak[Category::workspace] += cost.workspace().count();
    stage.activation_peak = memory.activation_peak;
    stage.in_flight_chunks = memory.in_flight_chunks;
    stage.busy = ends.busy[r] + rest.ranks[r].busy;
  }
  return prediction;
}

}  // namespace

SimTime Prediction::longest_busy() const {
  SimTime longest{0};
  for (StagePrediction const& stage : stages) longest = std::max(longest, stage.busy);
  return longest;
}

Prediction predict(TrainingConfig const& config, System const& system) {
  ScheduleLoop const loop = loop_of(config);
  if (auto const prediction = predict(config, system, loop)) return *prediction;
  return predict(config, system, {.shape = checked_shape(schedule_shape(config))}).value();
}

}  // namespace stagecraft
