#pragma once

#include <vector>

#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// The weight gradients of a split backward that recomputes their inputs again: before an op that
/// reads what a region has recomputed, the whole region runs once more, with copies of its own.
/// What the region itself reads, as a checkpoint, then stays until here.
///
/// `backward` is the whole backward without waits, `weights` those of its ops that wait for the
/// second pass, in order.
/// \throws std::logic_error  if an op of the first pass overwrites what a region still needs.
std::vector<Op> with_recompute_again(BlockProgram& block,
                                     std::vector<Op> const& backward,
                                     std::vector<Op> const& weights);

}  // namespace stagecraft
