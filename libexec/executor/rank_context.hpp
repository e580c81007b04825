#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "libexec/backends/backend.hpp"
#include "libexec/comm/communicator.hpp"
#include "libexec/executor/clocks.hpp"
#include "libexec/executor/execution_recorder.hpp"
#include "libexec/executor/token_source.hpp"
#include "libexec/kernels/kernel_call.hpp"
#include "libexec/memory/counting_allocator.hpp"
#include "libexec/memory/lifetime_check.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The state that changes with each step, besides parameters and moments; the same on all ranks.
struct TrainingState {
  std::int64_t step = 0;     ///< number of iterations run
  std::int64_t updates = 0;  ///< number of iterations that changed the parameters
  double loss_scale = 1;
  std::int64_t steps_since_overflow = 0;  ///< or since the loss scale was doubled

  friend bool operator==(TrainingState const&, TrainingState const&) = default;
};

struct RankContext;

/// Observes an op of a pass after its kernel, while its operands exist; their contents can be read
/// through the rank's backend. Called by each rank's own thread.
using OpObserver = std::function<void(RankContext const&, Op const&, KernelCall const&)>;

/// What the parts of one rank's executor share. Everything outlives them.
struct RankContext {
  TrainingPlan const& plan;
  Programs const& programs;  ///< of this rank
  StagePlan const& program;  ///< that of this rank's stage
  RankId rank{};
  RankPlace place;
  Backend& backend;
  CountingAllocator& allocator;
  Communicator& communicator;
  RankClock& clock;
  TokenSource const& tokens;
  TrainingState& state;
  CommunicationCosts const* costs = nullptr;  ///< null if time is measured
  ExecutionRecorder* recorder = nullptr;      ///< null if this iteration is not traced
  OpObserver const* on_op = nullptr;          ///< null if there is no observer
  LifetimeCheck* lifetimes = nullptr;         ///< null if they are not checked
  bool values_matter = true;                  ///< false: parameters start as any numbers

  /// Where this rank stands in the rank grids.
  AxisPosition positions() const {
    return [this](std::string_view axis) {
      for (RankGrid const& grid : plan.groups.grids()) {
        if (auto const found = grid.find(axis)) return grid.position(rank, *found);
      }
      throw std::logic_error{"this rank has no place on the axis " + std::string{axis}};
    };
  }
  /// Whether a rank of lower number has the same shards of units.
  bool has_copy_of_shards() const {
    std::optional<GroupId> const copies = plan.roles.unit_copies;
    return copies && plan.groups.membership(*copies, rank).value().member > 0;
  }
  /// The part of a parameter that this rank holds.
  ParameterWindow window(PlacedParameter const& placed) const {
    return window_of(*placed.parameter, *placed.weight, positions());
  }
  SimTime duration_of(Op const& op) const {
    return costs == nullptr ? SimTime{0} : costs->collective(op);
  }
  std::size_t record(Op const& op, OpPlace const& op_place, TimeSpan const& time) const {
    return recorder == nullptr ? 0 : recorder->add(op, op_place, time);
  }
  /// A microbatch of this rank's replica, as one of the global batch.
  BatchMicrobatchId in_batch(MicrobatchId microbatch) const {
    return stagecraft::in_batch(plan.config, place.data, microbatch);
  }
};

/// The rows of each sequence that a rank has.
SequencePart sequence_part(TrainingPlan const& plan, RankPlace const& place);

/// The needs of the kernels of a rank.
KernelNeeds kernel_needs(TrainingPlan const& plan, RankId rank);

}  // namespace stagecraft
