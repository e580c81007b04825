#include "libsim/engine/record.hpp"

#include <algorithm>
#include <stdexcept>

#include "libsim/engine/player/recorded_times.hpp"
#include "libsim/engine/stage_recorder.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/rank_programs.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_writer.hpp"

namespace stagecraft {

namespace {

TraceMeta meta_of(TrainingPlan const& plan, System const& system, RecordOptions const& options) {
  return {.program_version = std::string{program_version()},
          .command_line = options.command_line,
          .config = options.config,
          .plan = fingerprint(plan),
          .device = system.name,
          .clock = TraceClock::simulated};
}

/// The stages to record, ascending, each once.
std::vector<StageId> chosen_stages(TrainingPlan const& plan, std::vector<StageId> const& asked) {
  std::vector<StageId> stages = asked;
  auto const count = static_cast<std::int32_t>(plan.stages.size());
  if (stages.empty()) {
    for (std::int32_t stage = 0; stage < count; ++stage) stages.emplace_back(stage);
  }
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  for (StageId const stage : {stages.front(), stages.back()}) {
    if (stage.value() < 0 || stage.value() >= count) {
      throw std::invalid_argument{"stage: found '" + std::to_string(stage.value()) +
                                  "'; accepted: 0 to " + std::to_string(count - 1)};
    }
  }
  return stages;
}

}  // namespace

void record_to_file(std::filesystem::path const& path,
                    PlayedIteration const& played,
                    RecordOptions const& options) {
  TrainingPlan const& plan = played.costed.plan();
  std::vector<StageId> const stages = chosen_stages(plan, options.stages);
  TraceVocabulary const vocabulary{plan};
  TraceWriter writer{path, meta_of(plan, played.costed.system(), options), vocabulary.names()};
  for (StageId const stage : stages) {
    RankPrograms const held{plan, played.simulation.stages[stage.index()].rank()};
    writer.write(
        record_stage(played.costed, *held, played.times, vocabulary, stage, options.detail));
  }
  writer.finish();
}

}  // namespace stagecraft
