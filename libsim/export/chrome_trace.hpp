#pragma once

#include <cstdint>
#include <vector>

#include "libsim/host/output_file.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// Writes ranks of a trace as Chrome trace events, which Perfetto and chrome://tracing open.
///
/// There is one process per rank and one thread per stream. The compute thread has a slice for each
/// forward and backward of a chunk, with its ops inside; counters show memory by category in bytes,
/// and arrows lead from each send to its receive. Times are in microseconds with three decimals,
/// rounded from ps; slices of a thread are sorted by start, outer ones first. One rank at a time is
/// in memory.
/// \throws TraceFileError, OutputError
/// Source: "Trace Event Format", Google, 2016 (Catapult); perfetto.dev, "Flow events".
void write_chrome_trace(TraceReader const& trace,
                        std::vector<std::int32_t> const& ranks,
                        OutputFile& output);

}  // namespace stagecraft
