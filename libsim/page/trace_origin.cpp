#include "libsim/page/trace_origin.hpp"

#include "libsim/report/simulation_tables.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {

bool is_executed(TraceMeta const& meta) { return meta.clock != TraceClock::simulated; }

std::string origin_of(TraceMeta const& meta, std::optional<RunConfig> const& config) {
  if (!is_executed(meta)) return "predicted for " + meta.device;
  std::string ran = "executed on " + meta.device;
  std::string const model = config ? " modelled as on " + config->system.name : " modelled";
  switch (meta.clock) {
    case TraceClock::virtual_time:
      return ran + ", communication" + model;
    case TraceClock::solo:
      return ran + ", one rank alone, the others" + model;
    default:
      return ran;
  }
}

std::optional<std::int64_t> capacity_of(TraceMeta const& meta,
                                        std::optional<RunConfig> const& config) {
  if (!config) return std::nullopt;
  Accelerator const& accelerator = config->system.accelerator;
  // The name of a GPU that executed is followed by the versions of its software.
  if (is_executed(meta) && !meta.device.starts_with(accelerator.name)) return std::nullopt;
  return accelerator.memory.value.count();
}

std::string setting_of(TraceMeta const& meta, std::optional<RunConfig> const& config) {
  if (!config) return "";
  TrainingConfig const& training = config->training;
  ParallelLayout const& parallel = training.parallel;
  std::string text =
      parameters_text(training.model) + " on " + std::to_string(world_size(parallel)) +
      (is_executed(meta) ? " ranks" : " × " + config->system.accelerator.name) + " · tensor " +
      std::to_string(parallel.tensor) + ", pipeline " + std::to_string(parallel.pipeline);
  if (parallel.interleave > 1) text += " × " + std::to_string(parallel.interleave) + " chunks";
  if (placement_of(training).copies() > 1) text += " (two copies of the model)";
  if (parallel.context > 1) text += ", context " + std::to_string(parallel.context);
  text += ", data " + std::to_string(parallel.data) + " · " +
          std::to_string(microbatches(training)) +
          (microbatches(training) == 1 ? " microbatch of " : " microbatches of ") +
          std::to_string(training.batch.micro);
  return text;
}

}  // namespace stagecraft
