#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// The ranks of a trace that `list` names ("0,8,16"), ascending and each once.
/// \throws CommandLineError  if an entry is not a number, or not a rank of the trace.
std::vector<std::int32_t> read_trace_ranks(std::string const& list, TraceReader const& trace);

/// The value of --detail.
TraceDetail read_detail(CommandLine const& line);

}  // namespace stagecraft
