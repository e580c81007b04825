#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A one-way connection between two stages, for one kind of message.
///
/// If messages have no tags and the calls of one connection run in order, as in NCCL, each kind and
/// direction needs its own connection so that none waits for another: between two stages of an
/// interleaved pipeline both activations and gradients go both ways.
struct StageEdge {
  Transfer::Payload payload = Transfer::Payload::activation;
  StageId from{};
  StageId to{};

  friend auto operator<=>(StageEdge const&, StageEdge const&) = default;
};

/// All edges of a plan, in rounds. No stage has two edges of the same round, so one split of the
/// job's communicator makes all edges of a round.
std::vector<std::vector<StageEdge>> edge_rounds(TrainingPlan const& plan);

/// The edge of each message, by its number.
std::vector<StageEdge> message_edges(TrainingPlan const& plan);

/// Whether a send is over when its tensor may be used again, before its receiver has it.
inline bool buffers_sends(TrainingPlan const& plan) {
  return plan.config.schedule.p2p == P2p::overlapped;
}

/// Checks a precondition of stages that communicate over edges.
/// \throws std::logic_error  unless both ends of each edge post its messages in the same order.
void require_message_order(TrainingPlan const& plan);

}  // namespace stagecraft
