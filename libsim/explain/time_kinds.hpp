#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libsim/engine/costed_plan.hpp"
#include "libsim/engine/recorded_times.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What time goes to.
enum class TimeKind : std::uint8_t {
  forward,             ///< computing layers forward
  backward,            ///< computing their gradients
  recompute,           ///< computing forward once more
  tensor_parallel,     ///< computation stands still for a collective among tensor ranks
  head_and_embedding,  ///< both passes of embedding, head and loss, their collectives included
  pipeline_transfer,   ///< a message on its way
  bubble,              ///< waiting for another stage; on a critical path nobody waits
  data_parallel,       ///< reducing gradients, and what that slows down
  optimizer,           ///< optimizer step and what an iteration costs once
};
inline constexpr int time_kind_count = 9;

/// Identifier, as in JSON: "forward", "tensor_parallel", ...
std::string_view name_of(TimeKind kind);

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

/// What a task of a rank spends `time` on, its duration or, where it was slowed down, more: by the
/// shares that simulate() counts, with what the compute stream waits for collectives inside layers
/// taken out of forward, backward and recompute, and what a reduction of gradients beside it costs
/// counted as data parallel. Sums to `time`.
KindTimes kinds_of_task(CostedPlan const& costed, std::size_t rank, std::size_t task, SimTime time);

/// Simulation::breakdown with the same taken out of the same; sums to Simulation::iteration.
/// `times`: of the iteration.
KindTimes kinds_of_busiest_stage(CostedPlan const& costed,
                                 RecordedTimes const& times,
                                 Simulation const& simulation);

/// The stage that Simulation::breakdown is about: the lowest with most busy time.
std::size_t busiest_stage(Simulation const& simulation);

}  // namespace stagecraft
