#pragma once

#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// Leaves out the quantised copies that no op reads: those of a direction, of operands that are
/// recomputed. Pre: no waits are inserted, and the backward is not split.
void trim_quantisation(BlockProgram& block);

}  // namespace stagecraft
