#include "libsim/engine/player/schedule_timeline.hpp"

#include <cstddef>

#include "libsim/engine/player/player.hpp"

namespace stagecraft {

namespace {

/// Records when computations ran.
class ComputationLog : public SilentObserver {
 public:
  ComputationLog(PipelineSchedule const& schedule, PlayedOrder& played)
      : schedule_{schedule}, played_{played} {}

  void ran(StageId stage, RanEntry const& what, SimTime start, SimTime end) {
    ChunkRun const run = schedule_.run_of({.task = what.task, .microbatch = what.microbatch});
    played_.stages[stage.index()].runs.push_back({run, start, end});
  }

 private:
  PipelineSchedule const& schedule_;
  PlayedOrder& played_;
};

}  // namespace

PlayedOrder play_schedule(PipelineSchedule const& schedule, ChunkCosts const& costs) {
  check_costs(costs);
  CostTicks const ticks{
      costs, 4.0 * schedule.shape.stages * schedule.shape.microbatches * schedule.shape.chunks};
  std::vector<Task> const tasks(static_cast<std::size_t>(schedule.tasks()));
  std::vector<SimTime> durations;
  durations.reserve(tasks.size());
  for (int task = 0; task < schedule.tasks(); ++task) {
    durations.push_back(ticks.of(costs.of(schedule.run_of({.task = task}).pass)));
  }
  std::vector<MessageCost> const channels(static_cast<std::size_t>(schedule.channels),
                                          {.latency = ticks.of(costs.transfer)});
  std::vector<PlayedStage> stages;
  for (StageProgram const& program : schedule.stages) {
    stages.push_back({.program = &program, .tasks = tasks, .durations = durations});
  }
  PlayedOrder played;
  played.stages.resize(schedule.stages.size());
  played.ticks_per_unit = ticks.ticks_per_unit();
  ComputationLog log{schedule, played};
  Timeline const timeline = play({.stages = stages,
                                  .channels = channels,
                                  .most_queued = schedule.most_queued,
                                  .p2p = schedule.shape.p2p},
                                 log);
  played.makespan = timeline.makespan;
  for (std::size_t stage = 0; stage < played.stages.size(); ++stage) {
    StageRuns& times = played.stages[stage];
    StageTimeline const& line = timeline.stages[stage];
    times.start = times.runs.front().start;
    times.end = line.end;
    times.busy = line.busy;
    times.transfer = line.transfer;
    times.bubble = line.bubble;
  }
  return played;
}

}  // namespace stagecraft
