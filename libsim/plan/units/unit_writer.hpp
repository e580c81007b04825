#pragma once

#include "libsim/plan/units/unit_block.hpp"

namespace stagecraft {

/// Adds to a block the ops of its unit: gathers, copies, reductions, and the buffers for them. Its
/// weights become parts of the gathered buffer, if it gathers, and its gradients buffers of the
/// microbatch.
/// Pre: the block's backward is whole, and it has parameters.
void write_unit(BlockProgram& block,
                UnitTraits const& traits,
                Neighbours const& beside,
                UnitPasses const& passes);

}  // namespace stagecraft
