#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "libexec/comm/mpi_session.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// Whether a command line has --ranks mpi; MPI starts before it is read any further, so that what
/// is wrong with it is said once and not by every process.
bool asks_for_mpi(std::vector<std::string> const& arguments);

/// Runs `command` in a process that is one of several. Only rank 0 writes to standard output and
/// error. What `command` throws ends all processes; rank 0 says why, whichever rank it was.
/// \returns the command's exit code
int on_mpi_ranks(std::function<int(MpiSession&)> const& command);

/// Whether there is a process for each rank of the plan.
/// \throws CommandLineError
void require_processes(MpiSession* session, TrainingConfig const& config);

/// What `stagecraft-exec run` says of an error: as any program, and that a plan does not fit.
LastWords last_words(std::exception_ptr const& error);

}  // namespace stagecraft
