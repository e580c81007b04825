#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

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
};
inline constexpr int time_kind_count = 9;

/// The names in JSON.
template <>
struct EnumNames<TimeKind> {
  static constexpr std::array<std::pair<TimeKind, std::string_view>, 9> all{
      {{TimeKind::forward, "forward"},
       {TimeKind::backward, "backward"},
       {TimeKind::recompute, "recompute"},
       {TimeKind::tensor_parallel, "tensor_parallel"},
       {TimeKind::head_and_embedding, "head_and_embedding"},
       {TimeKind::pipeline_transfer, "pipeline_transfer"},
       {TimeKind::bubble, "bubble"},
       {TimeKind::data_parallel, "data_parallel"},
       {TimeKind::optimizer, "optimizer"}}};
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

}  // namespace stagecraft
