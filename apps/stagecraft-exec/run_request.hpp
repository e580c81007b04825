#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/stagecraft-exec/device_choice.hpp"
#include "apps/stagecraft-exec/process_ranks.hpp"
#include "libexec/executor/job.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The options of `stagecraft-exec run`.
std::vector<Option> execution_options();

/// The values of --steps and the other options; checked before anything runs.
struct RunRequest {
  ExecutionOptions execution;
  DeviceChoice device;
  std::string clock;
  std::string ranks;
  RankId rank{};  ///< the rank that runs, with --ranks solo
  std::optional<std::string> data;
  std::optional<std::string> save;
  std::optional<std::string> trace;
};

/// Whether --save keeps what an iteration left: its loss is finite.
bool is_fit_to_save(StepReport const& report);

/// `processes`: null if ranks are not processes.
/// \throws CommandLineError, DeviceError
RunRequest read_run_request(CommandLine const& line,
                            TrainingConfig const& config,
                            RankProcesses const* processes);

}  // namespace stagecraft
