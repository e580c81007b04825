#pragma once

#include <cstdint>
#include <vector>

#include "libsim/host/output_file.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// Writes the ops of a trace as CSV (RFC 4180, lines end in LF), one row per op, in issue order, rank by
/// rank. The header is:
///
///     rank,stage,start_ps,duration_ps,op,phase,stream,layer,microbatch,chunk,bytes,flops
///
/// op, phase and stream are names; layer, microbatch and chunk are empty if they do not apply.
/// \throws TraceFileError, OutputError
void write_op_table(TraceReader const& trace,
                    std::vector<std::int32_t> const& ranks,
                    OutputFile& output);

/// Writes the memory of a trace in bytes in the same way, one row per state, after each change. The header is:
///
///     rank,stage,time_ps,parameters,gradients,optimizer,activations,recomputed,communication,
///     workspace,reserved
///
/// all in one line; reserved is empty if the trace has no allocator's answers.
/// \throws TraceFileError, OutputError
void write_memory_table(TraceReader const& trace,
                        std::vector<std::int32_t> const& ranks,
                        OutputFile& output);

}  // namespace stagecraft
