#pragma once

#include <cstdint>
#include <vector>

#include "libsim/host/output_file.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// Writes the memory of a trace as a snapshot of PyTorch's allocator, which pytorch.org/memory_viz
/// opens: a device a rank, with one segment, and blocks that come and go in it.
///
/// A block is named by its category and the op that ran when it came. What a trace does not know,
/// which buffer is which, is as memory_blocks() makes it. Times in whole microseconds.
/// \throws TraceFileError, OutputError
/// Source: pytorch, torch/csrc/cuda/memory_snapshot.cpp and torch/utils/viz/MemoryViz.js.
void write_memory_snapshot(TraceReader const& trace,
                           std::vector<std::int32_t> const& ranks,
                           OutputFile& output);

}  // namespace stagecraft
