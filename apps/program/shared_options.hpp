#pragma once

#include "apps/program/command_line.hpp"

/// Options that several commands have.
namespace stagecraft {

Option json_option();

/// How many threads work: --jobs.
Option jobs_option();
/// The value of jobs_option(), without which it is core_count().
int jobs_of(CommandLine const& line);

/// The threads that the machine runs at once; 1 if it does not say.
int core_count();

}  // namespace stagecraft
