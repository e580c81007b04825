#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// One row of ops, by the places of its names in names_of_rows().
struct Row {
  std::int64_t start = 0;  ///< ns
  std::int64_t duration = 0;
  std::int64_t op = 0;
  std::int64_t phase = 0;
  std::int64_t stream = 0;
  std::int64_t microbatch = -1;
  std::int64_t chunk = -1;
  std::int64_t layer = -1;
  std::int64_t bytes = 0;
  std::int64_t flops = 0;
};

enum : std::int64_t { op_forward, op_backward, op_matmul, op_gelu, op_send, op_receive, op_adam };
enum : std::int64_t {
  in_forward,
  in_recompute,
  in_input_gradient,
  in_backward,
  in_transfer,
  in_optimizer,
  in_invented
};
enum : std::int64_t {
  on_compute,
  on_tensor,
  on_send_activation,
  on_receive_activation,
  on_send_gradient,
  on_receive_gradient
};

inline TraceNames names_of_rows() {
  return {.op = {"forward", "backward", "matmul", "gelu, \"fast\"", "send.activation",
                 "receive.activation", "step.adam"},
          .phase = {"forward", "recompute", "input_gradient", "backward", "transfer", "optimizer",
                    "invented"},
          .stream = {"compute", "tensor_parallel", "send_activation", "receive_activation",
                     "send_gradient", "receive_gradient"}};
}

inline RankTrace rank_of_rows(std::int32_t rank, std::int32_t stage, std::vector<Row> const& rows) {
  RankTrace trace;
  trace.rank = rank;
  trace.stage = stage;
  for (Row const& row : rows) {
    OpColumns& ops = trace.ops;
    ops.start.push_back(1000 * row.start);
    ops.duration.push_back(1000 * row.duration);
    ops.op.push_back(row.op);
    ops.phase.push_back(row.phase);
    ops.stream.push_back(row.stream);
    ops.layer.push_back(row.layer);
    ops.microbatch.push_back(row.microbatch);
    ops.chunk.push_back(row.chunk);
    ops.bytes.push_back(row.bytes);
    ops.flops.push_back(row.flops);
  }
  return trace;
}

/// Appends a state of memory.
inline void add_state(RankTrace& rank,
                      std::int64_t nanoseconds,
                      std::int64_t parameters,
                      std::int64_t activations,
                      std::int64_t workspace = 0) {
  rank.memory.time.push_back(1000 * nanoseconds);
  for (TraceColumn& column : rank.memory.bytes) column.push_back(0);
  rank.memory.of(Category::parameters).back() = parameters;
  rank.memory.of(Category::activations).back() = activations;
  rank.memory.of(Category::workspace).back() = workspace;
}

/// Traces need a plan's fingerprint to be read again.
inline Trace trace_of_rows(std::vector<RankTrace> const& ranks) {
  Trace trace;
  trace.meta.plan = std::string(64, '0');
  trace.meta.device = "a \"device\"";
  trace.names = names_of_rows();
  trace.ranks = ranks;
  return trace;
}

}  // namespace stagecraft
