#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// Writes `<prefix>.<rank>.json.gz` for each rank of a trace, as PyTorch's profiler writes them, for
/// the tools that read its files: HTA, TensorBoard's plug-in, Perfetto.
///
/// Each op is an event of category `kernel`; collectives and messages have names that begin with
/// `nccl`, by which those tools tell communication, and the profiler's arguments `Collective name`,
/// `Group size` and `Process Group Name`. Chunks are `gpu_user_annotation`s, and the iteration is
/// `ProfilerStep#1`. Waits and what takes no time are not events. A trace has no times of the host:
/// there are no `cpu_op`s and no launches, so that analyses of launches and queues find none. A
/// simulated trace has one rank per stage, which gets the number of the stage's first rank in the
/// job.
/// \throws TraceFileError  when the configuration of the trace does not load or gives another plan,
/// or a row is a whole chunk. \throws OutputError  and then no file is left.
/// Source: pytorch/kineto, libkineto/src/output_json.cpp; facebookresearch/HolisticTraceAnalysis.
void write_kineto(TraceReader const& trace,
                  std::vector<std::int32_t> const& ranks,
                  std::filesystem::path const& prefix);

}  // namespace stagecraft
