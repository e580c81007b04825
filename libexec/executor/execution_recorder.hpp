#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "libexec/backends/backend.hpp"
#include "libexec/comm/communicator.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/program/category_bytes.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_names.hpp"

namespace stagecraft {

/// The layer, microbatch and chunk of an op; -1 if it does not apply.
struct OpPlace {
  std::int64_t layer = -1;
  MicrobatchId microbatch = no_microbatch;
  std::int64_t chunk = -1;
};

/// Records what one rank does in an iteration, in the form of the simulator's trace. Owns the
/// trace. Times of a device are marks until resolve(); begin_ and end_ calls come in pairs.
class ExecutionRecorder {
 public:
  /// At chunk detail a forward or backward is one row; of its memory only the peak and the end are
  /// recorded.
  ExecutionRecorder(TraceVocabulary const& vocabulary,
                    RankId rank,
                    StageId stage,
                    TraceDetail detail);

  /// Starts an iteration and discards what was recorded before.
  /// `reserved`: what a modelled allocator has reserved, if there is one.
  void restart(CategoryBytes const& memory, std::optional<std::int64_t> reserved);

  /// The ops between the two are those of one forward or backward.
  void begin_work();
  void end_task(Programs const& programs,
                Task const& task,
                OpPlace const& place,
                TimeSpan const& time);

  /// What is allocated and released between the two is one change of memory: of its states only
  /// the peak and the end are kept, as in the simulator's trace.
  void begin_change();
  void end_change();

  /// Appends a row and returns its number, so that its time can be set later. A row that this
  /// detail leaves out has a number, too.
  std::size_t add(Op const& op, OpPlace const& place, TimeSpan const& time);
  std::size_t add(Transfer const& transfer, Bytes bytes, TimeSpan const& time);
  void set_time(std::size_t row, TimeSpan const& time);
  /// `now`: a span without duration.
  void add_memory(TimeSpan const& now,
                  CategoryBytes const& bytes,
                  std::optional<std::int64_t> reserved);
  /// Replaces the marks of this device, which the trace holds until then, with their times.
  /// Pre: the device is idle.
  void resolve(DeviceTimeline const& device);

  RankTrace const& trace() const { return trace_; }

 private:
  struct Row {
    std::int64_t op = 0;
    TracePhase phase = TracePhase::forward;
    Stream stream = Stream::compute;
    std::int64_t bytes = 0;
    std::int64_t flops = 0;
  };
  struct MemoryState {
    std::int64_t time = 0;  ///< or a mark
    CategoryBytes bytes;
    std::optional<std::int64_t> reserved;
  };
  std::size_t append(Row const& row, OpPlace const& place, TimeSpan const& time);
  void append(MemoryState const& state);

  TraceVocabulary const& vocabulary_;
  TraceDetail detail_;
  RankTrace trace_;
  void begin_summary();
  void end_summary(std::int64_t end);

  bool is_changing_ = false;
  bool is_inside_ = false;  ///< inside a forward or backward that is recorded as a summary
  MemoryState last_;
  CategoryBytes before_;             ///< at the start of the task
  std::optional<MemoryState> peak_;  ///< of the task, if it is above all peaks before
  std::int64_t highest_ = 0;         ///< highest sum so far, without workspace
};

}  // namespace stagecraft
