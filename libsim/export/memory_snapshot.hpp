#pragma once

#include <cstdint>
#include <vector>

#include "libsim/host/output_file.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// Writes the memory of a trace as a snapshot of PyTorch's allocator, which pytorch.org/memory_viz
/// opens: one device per rank, with one segment in which blocks are allocated and released.
///
/// The name of a block is its category and the op that ran at its allocation. A trace does not know
/// individual buffers; memory_blocks() reconstructs them. Times are in whole microseconds.
/// \throws TraceFileError, OutputError
/// Source: pytorch, torch/csrc/cuda/memory_snapshot.cpp and torch/utils/viz/MemoryViz.js.
void write_memory_snapshot(TraceReader const& trace,
                           std::vector<std::int32_t> const& ranks,
                           OutputFile& output);

}  // namespace stagecraft
