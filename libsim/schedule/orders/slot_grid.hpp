#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// Tasks of V schedules laid out in slots of equal length: one letter per slot and stage, a space
/// for a free slot. F, B, W are the tasks that go down the V from stage 0, forwards of chunk 0 and
/// gradients of chunk 1; f, b, w are those that go up. The k-th occurrence of a letter has
/// microbatch k.
using SlotGrid = std::vector<std::string>;  ///< by stage

inline constexpr int block_slots = 6;  ///< a microbatch's F, f, B, b, W, w on a stage

/// The slots of F, f, B, b, W, w of a stage, modulo block_slots.
struct SlotBlock {
  int forward_down = 0;
  int forward_up = 0;
  int gradient_down = 0;
  int gradient_up = 0;
  int weight_down = 0;
  int weight_up = 0;
};

/// Repeats the stages' blocks `microbatches` times. The first microbatch runs as early as its
/// dependencies and the blocks allow.
SlotGrid repeated_blocks(std::vector<SlotBlock> const& blocks, int microbatches);

/// Whether the gradients of a grid run whole or in parts.
enum class GridBackward { whole, split };

/// The order of the tasks of a grid. If the backward is whole, W and w are left out.
PipelineOrder order_of_grid(SlotGrid const& grid, int microbatches, GridBackward backward);

}  // namespace stagecraft
