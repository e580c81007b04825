#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/schedule/orders/placement.hpp"
#include "libsim/units/ids.hpp"
#include "libsim/units/pass.hpp"

namespace stagecraft {

/// A pass of one microbatch through one chunk of a stage.
struct ChunkRun {
  Pass pass = Pass::forward;
  MicrobatchId microbatch{};
  ChunkId chunk{};

  friend bool operator==(ChunkRun const&, ChunkRun const&) = default;
};

/// A task of an order: the next computation of its stage.
struct OrderTask {
  ChunkRun run;
  /// Whether it overlaps the task after it. The two then start when both can, take the sum of their
  /// costs, and end together.
  bool is_paired = false;

  friend bool operator==(OrderTask const&, OrderTask const&) = default;
};

/// The decisions of a schedule: the tasks of each stage, in order. All ranks of a stage run the
/// same tasks.
struct PipelineOrder {
  Placement placement;
  int microbatches = 1;  ///< of one replica in one iteration, over all copies of the model
  std::vector<std::vector<OrderTask>> stages;  ///< tasks, by stage

  friend bool operator==(PipelineOrder const&, PipelineOrder const&) = default;
};

/// Microbatches [first, end).
struct MicrobatchRange {
  MicrobatchId first{};
  MicrobatchId end{};
};

/// The microbatches that pass through a copy of the model: each copy takes an equal share, the
/// first copy the first microbatches.
MicrobatchRange microbatches_of_copy(PipelineOrder const& order, int copy);

/// Whether some backward of the order is split.
bool splits_backward(PipelineOrder const& order);

/// Joins each input gradient that is directly followed by its weight gradient into one whole
/// backward.
PipelineOrder with_fused_backwards(PipelineOrder order);

/// The end of the time in which a chunk pass counts as in flight.
enum class InFlight : std::uint8_t { until_weight_gradient, until_input_gradient };

/// The largest number of chunk passes in flight on a stage: forwards that have started and whose
/// weight gradient, or input gradient, has not ended. A whole backward is both.
int most_in_flight(PipelineOrder const& order, std::size_t stage, InFlight until);

}  // namespace stagecraft
