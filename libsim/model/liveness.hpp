#pragma once

#include "libsim/model/block_program.hpp"

namespace stagecraft {

/// Inserts the compute stream's waits for collectives: directly after a collective that is not
/// asynchronous; otherwise before the first op that conflicts with the collective's operands, at
/// the latest at the end of the pass. So every pass drains the tensor-parallel stream.
void insert_waits(BlockProgram& block);

/// Derives when each microbatch buffer exists (BufferLife). Pre: waits are inserted.
void derive_liveness(BlockProgram& block);

}  // namespace stagecraft
