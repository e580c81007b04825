#pragma once

#include <vector>

#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// Returns the second pass of a split backward that recomputes inputs again. Before an op that
/// reads what a region has recomputed, the whole region runs once more, with copies of its own. The
/// inputs of a checkpoint therefore stay until this pass.
///
/// `backward` is the whole backward without waits; `weights` are its ops that belong to the second
/// pass, in order.
/// \throws std::logic_error  if an op of the first pass overwrites what a region still needs.
std::vector<Op> with_recompute_again(BlockProgram& block,
                                     std::vector<Op> const& backward,
                                     std::vector<Op> const& weights);

}  // namespace stagecraft
