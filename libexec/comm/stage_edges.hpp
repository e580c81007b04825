#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A one-way connection between two stages, for one kind of message.
///
/// Where messages have no tags and calls of one connection run in order (NCCL's do), kinds and
/// directions that must not wait for each other need connections of their own: between two stages
/// of an interleaved pipeline activations and gradients go both ways.
struct StageEdge {
  Transfer::Payload payload = Transfer::Payload::activation;
  int from = 0;  ///< stages
  int to = 0;

  friend auto operator<=>(StageEdge const&, StageEdge const&) = default;
};

/// All edges of a plan, in rounds: in one round no stage has two of them, so that all ranks can
/// make them by one split of the job.
std::vector<std::vector<StageEdge>> edge_rounds(TrainingPlan const& plan);

/// The edge of each message, by its number.
std::vector<StageEdge> message_edges(TrainingPlan const& plan);

/// \throws std::logic_error  unless both ends of each edge post its messages in the same order.
void require_message_order(TrainingPlan const& plan);

}  // namespace stagecraft
