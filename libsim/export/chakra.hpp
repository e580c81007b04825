#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// Writes execution traces of MLCommons Chakra, as ASTRA-sim takes them: `<prefix>.<rank>.et` for
/// each rank of the job, and `<prefix>.groups.json` with the members of each group that a
/// collective names, numbered from 1. The size of an all-gather is what a rank puts in. Beside them
/// are `<prefix>.network.yml` and `<prefix>.system.json`, the machine for ASTRA-sim.
///
/// A simulated trace has one rank a stage, which stands for all tensor and data ranks of it: each
/// of them gets a file. Kernels are COMP nodes, messages COMM_SEND and COMM_RECV with one tag at
/// both ends, collectives COMM_COLL; waits are dependencies, not nodes. A node depends on the node
/// before it on its stream, on the messages and collectives that are over when it starts and that
/// nothing on its stream has waited for yet, and, of a message or collective, on the computation
/// issued before it. Attributes beside ASTRA-sim's: duration_ns, stage, phase, microbatch, chunk,
/// layer.
/// \throws TraceFileError  when the configuration of the trace does not load or gives another plan,
/// or a message has only one end in the trace. \throws OutputError  and then no file is left.
/// Source: github.com/mlcommons/chakra, schema/protobuf/et_def.proto; astra-sim/chakra,
/// et_feeder_node.cpp (types of the attributes).
void write_chakra(TraceReader const& trace,
                  std::vector<std::int32_t> const& ranks,
                  std::filesystem::path const& prefix);

}  // namespace stagecraft
