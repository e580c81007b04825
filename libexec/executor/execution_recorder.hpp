#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/backends/device_timeline.hpp"
#include "libexec/comm/communicator.hpp"
#include "libsim/model/category_bytes.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// Where in the model and the iteration an op runs; -1 where it does not apply.
struct OpPlace {
  std::int64_t layer = -1;
  std::int64_t microbatch = -1;
  std::int64_t chunk = -1;
};

/// Takes down what one rank does in an iteration, as the simulator's trace has it.
class ExecutionRecorder {
 public:
  ExecutionRecorder(TraceVocabulary const& vocabulary, int rank, int stage);

  /// Starts an iteration; what was taken down before is forgotten.
  void restart(CategoryBytes const& memory);

  /// Appends a row; returns its number, so that its time can be set later.
  std::size_t add(Op const& op, OpPlace const& place, TimeSpan const& time);
  std::size_t add(Transfer const& transfer, Bytes bytes, TimeSpan const& time);
  void set_time(std::size_t row, TimeSpan const& time);
  void add_memory(SimTime time, CategoryBytes const& bytes);
  /// Replaces all times, which are marks of this device, by what the device says of them.
  /// Pre: the device is idle.
  void resolve(DeviceTimeline const& device);

  RankTrace const& trace() const { return trace_; }

 private:
  struct Row {
    std::int64_t op = 0;
    TracePhase phase = TracePhase::forward;
    TraceStream stream = TraceStream::compute;
    std::int64_t bytes = 0;
    std::int64_t flops = 0;
  };
  std::size_t append(Row const& row, OpPlace const& place, TimeSpan const& time);

  TraceVocabulary const& vocabulary_;
  RankTrace trace_;
};

}  // namespace stagecraft
