#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/engine/player/recorded_times.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/units/enum_names.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What time is spent on.
enum class TimeKind : std::uint8_t {
  forward,             ///< computing layers forward
  backward,            ///< computing their gradients
  recompute,           ///< computing forward a second time
  tensor_parallel,     ///< waiting for a collective of tensor ranks
  head_and_embedding,  ///< both passes of embedding, head and loss, their collectives included
  pipeline_transfer,   ///< a message on its way
  bubble,              ///< waiting for another stage; there is none on a critical path
  data_parallel,       ///< reducing gradients, and the computation that this slows down
  optimizer,           ///< optimizer step, and the overhead per iteration
  offload,             ///< updates by the host, and copies to and from it
  host_wait,           ///< waiting until the host has issued kernels
};
inline constexpr int time_kind_count = 11;

/// The names in JSON.
template <>
struct EnumNames<TimeKind> {
  static constexpr std::array<std::pair<TimeKind, std::string_view>, time_kind_count> all{
      {{TimeKind::forward, "forward"},
       {TimeKind::backward, "backward"},
       {TimeKind::recompute, "recompute"},
       {TimeKind::tensor_parallel, "tensor_parallel"},
       {TimeKind::head_and_embedding, "head_and_embedding"},
       {TimeKind::pipeline_transfer, "pipeline_transfer"},
       {TimeKind::bubble, "bubble"},
       {TimeKind::data_parallel, "data_parallel"},
       {TimeKind::optimizer, "optimizer"},
       {TimeKind::offload, "offload"},
       {TimeKind::host_wait, "host_wait"}}};
};

/// Times by kind.
class KindTimes {
 public:
  SimTime& operator[](TimeKind kind) { return times_[static_cast<std::size_t>(kind)]; }
  SimTime operator[](TimeKind kind) const { return times_[static_cast<std::size_t>(kind)]; }
  SimTime sum() const;
  KindTimes& operator+=(KindTimes const& other);
  friend bool operator==(KindTimes const&, KindTimes const&) = default;

 private:
  std::array<SimTime, time_kind_count> times_{};
};

/// What a task spends `time` on: its duration, or more if it was slowed down. The shares are those
/// that simulate() counts, except that the time for which the compute stream waits for collectives
/// of layers is not part of forward, backward and recompute, and that the slowdown by a concurrent
/// reduction of gradients counts as data parallel. Sums to `time`.
KindTimes kinds_of_task(CostedPlan const& costed, StageId stage, std::size_t task, SimTime time);

/// Simulation::breakdown with the same exceptions; sums to Simulation::iteration.
/// Pre: `times` are those of the iteration.
KindTimes kinds_of_busiest_stage(CostedPlan const& costed,
                                 RecordedTimes const& times,
                                 Simulation const& simulation);

/// The stage that Simulation::breakdown describes: the one with most busy time; of equals the
/// first.
std::size_t busiest_stage(Simulation const& simulation);

/// A piece of a critical path: the next piece could not start before this one was over.
struct PathPiece {
  enum class What : std::uint8_t {
    task,      ///< a task of a stage, on either stream; for a group, that of its slowest member
    message,   ///< from `stage` to another
    overhead,  ///< what the system adds to each iteration
  };
  What what = What::task;
  std::int32_t stage = 0;
  std::int32_t entry = -1;  ///< task: entry of the stage's issue order
  SimTime start{0};
  SimTime end{0};
};

/// A chain of tasks and messages without a gap, from the start of an iteration that is played alone
/// to its end. That becomes shorter only if a piece of it does (and no other chain is as long). It
/// is longer than Simulation::iteration if the next iteration begins before it ends, as with steps
/// that are validated meanwhile.
struct CriticalPath {
  std::vector<PathPiece> pieces;  ///< in order of time; each starts when the one before ends
  SimTime in_next{0};             ///< how much of it the next iteration runs beside
  KindTimes kinds;                ///< of the pieces; sums to Simulation::iteration + in_next
  // These sum to that too.
  std::vector<SimTime> by_stage;  ///< tasks of each stage
  SimTime in_messages{0};
  SimTime overhead{0};
  int messages = 0;  ///< number of messages
};

/// Goes back from the last event of an iteration, each time to what that event waited for: the
/// task before it on the same stage, the message that arrived, the end that posted it last, the
/// stream that was still busy, or the last stage to join a group. If several ended at the same
/// time, the stage's own task comes first, then the lowest stage. Times are exact, so an event
/// waited for whatever ended when it began, and the recorded times alone suffice.
/// Pre: `times` are those of a TimeRecorder of `costed`.
/// \throws std::logic_error  if nothing ended when something began.
CriticalPath find_critical_path(CostedPlan const& costed, RecordedTimes const& times);

}  // namespace stagecraft
