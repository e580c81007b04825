#include "libsim/report/stages_alone.hpp"

#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "libsim/engine/composed_iteration.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {
namespace {

/// The plan with another global batch; nullopt if its schedule does not allow that number of
/// microbatches.
std::optional<TrainingPlan> plan_with(TrainingConfig config, std::int64_t sequences) {
  std::int64_t const at_once = config.batch.micro * config.parallel.data;
  if (sequences < at_once || sequences % at_once != 0) return std::nullopt;
  config.batch.global = sequences;
  try {
    return make_plan(as_settled(std::move(config)));
  } catch (std::invalid_argument const&) {
    return std::nullopt;
  }
}

}  // namespace

std::string StagesAlone::names() const {
  std::string text = results->alone.size() == 1 ? "stage " : "stages ";
  char const* separator = "";
  for (auto const& [stage, file] : results->alone) {
    text += separator + std::to_string(stage);
    separator = ", ";
  }
  return text;
}

std::string StagesAlone::files() const {
  std::string text;
  for (auto const& [stage, file] : results->alone) text += (text.empty() ? "" : ", ") + file;
  return text;
}

std::optional<StagesAlone> find_stages_alone(TrainingConfig const& config,
                                             ExecutedResults const& results) {
  auto const merit = [&](StagesAlone const& stages) {
    std::int64_t const sequences = stages.plan.config.batch.global;
    return std::tuple{sequences == config.batch.global, stages.results->alone.size(), sequences};
  };
  std::optional<StagesAlone> best;
  for (std::int64_t const sequences : results.batches_alone()) {
    std::optional<TrainingPlan> plan = plan_with(config, sequences);
    if (!plan) continue;
    ExecutedRun const* const run = results.run_of(fingerprint(*plan));
    if (run == nullptr || run->is_whole()) continue;
    StagesAlone found{std::move(*plan), run};
    if (!best || merit(found) > merit(*best)) best = std::move(found);
  }
  return best;
}

double composed_seconds(TrainingPlan const& plan, System const& system, StagesAlone const& stages) {
  std::map<StageId, std::vector<MeasuredTask>> measured;
  for (auto const& [stage, file] : stages.results->alone) {
    TraceReader const trace{file};
    StageId const id{stage};
    measured[id] = measured_tasks(stages.plan.stages.at(id), trace.read(trace.ranks().front()));
  }
  return to_seconds(compose_iteration(CostedPlan{plan, system}, measured));
}

}  // namespace stagecraft
