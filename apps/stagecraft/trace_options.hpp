#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libsim/trace/trace_names.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// The ranks of a trace that `list` names ("0,8,16"), ascending and each once.
/// \throws CommandLineError  for what is no number, or no rank of the trace.
std::vector<std::int32_t> read_trace_ranks(std::string const& list, TraceReader const& trace);

/// The value of --detail. \throws CommandLineError
TraceDetail read_detail(std::string const& word);

/// Refuses to write a result over the trace it is made from.
/// \throws CommandLineError
void refuse_same_file(std::filesystem::path const& output, std::filesystem::path const& trace);

}  // namespace stagecraft
