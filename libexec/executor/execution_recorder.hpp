#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "libexec/backends/device_timeline.hpp"
#include "libexec/comm/communicator.hpp"
#include "libsim/model/category_bytes.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// The layer, microbatch and chunk of an op; -1 if it does not apply.
struct OpPlace {
  std::int64_t layer = -1;
  std::int64_t microbatch = -1;
  std::int64_t chunk = -1;
};

/// Records what one rank does in an iteration, in the form of the simulator's trace.
class ExecutionRecorder {
 public:
  /// At chunk detail a forward or backward is one row; of its memory only the peak and the end are
  /// recorded.
  ExecutionRecorder(TraceVocabulary const& vocabulary, int rank, int stage, TraceDetail detail);

  /// Starts an iteration and discards what was recorded before.
  void restart(CategoryBytes const& memory);

  /// The ops between the two are those of one forward or backward.
  void begin_work();
  void end_task(TrainingPlan const& plan,
                Task const& task,
                OpPlace const& place,
                TimeSpan const& time);

  /// Appends a row and returns its number, so that its time can be set later. A row that this
  /// detail leaves out has a number, too.
  std::size_t add(Op const& op, OpPlace const& place, TimeSpan const& time);
  std::size_t add(Transfer const& transfer, Bytes bytes, TimeSpan const& time);
  void set_time(std::size_t row, TimeSpan const& time);
  void add_memory(SimTime time, CategoryBytes const& bytes);
  /// Replaces all times, which are marks of this device, with the times of those marks.
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
  struct MemoryState {
    SimTime time{0};
    CategoryBytes bytes;
  };
  std::size_t append(Row const& row, OpPlace const& place, TimeSpan const& time);
  void append(MemoryState const& state);

  TraceVocabulary const& vocabulary_;
  TraceDetail detail_;
  RankTrace trace_;
  bool is_inside_ = false;  ///< inside a forward or backward of which only a summary is recorded
  MemoryState last_;
  CategoryBytes before_;             ///< at the start of the task
  std::optional<MemoryState> peak_;  ///< of the task, if it is above all peaks before
  std::int64_t highest_ = 0;         ///< highest sum so far, without workspace
};

}  // namespace stagecraft
