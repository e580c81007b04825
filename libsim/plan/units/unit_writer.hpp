#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "libsim/plan/units/unit_passes.hpp"
#include "libsim/plan/units/unit_types.hpp"
#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// What the collectives of all units have in common.
struct UnitTraits {
  int ranks = 1;  ///< that share a unit
  GroupId group{};
  std::optional<GroupId>
      copies{};  ///< the ranks with the same shards, over which gradients are summed
  UnitTypes types;
  bool is_flat = false;  ///< UnitKind::is_flat
};

/// The blocks that a unit depends on; null: there is none.
struct Neighbours {
  BlockProgram const* before = nullptr;  ///< the unit that runs before it in model order
  BlockProgram const* behind = nullptr;  ///< the unit that runs after it
  /// If the head has the embedding's table, both are one unit: of the embedding, the head; of the
  /// head, the embedding.
  BlockProgram const* partner = nullptr;
  std::int32_t distance = 0;  ///< from the block to its partner, in the chunk
  /// Whether the unit behind leaves it gradients to be reduced.
  bool reduces_behind = false;
};

/// Adds to a block the ops of its unit: gathers, copies, reductions, and the buffers for them. Its
/// weights become parts of the gathered buffer, and its gradients buffers of the microbatch.
/// Pre: the block's backward is whole, and it has parameters.
void write_unit(BlockProgram& block,
                UnitTraits const& traits,
                Neighbours const& beside,
                UnitPasses const& passes);

}  // namespace stagecraft
