#pragma once

#include "libsim/model/block_program.hpp"

namespace stagecraft {

/// Inserts the explicit waits of the compute stream for collectives: directly behind a collective
/// that is not asynchronous, else before the first op that touches what the collective uses; at the
/// latest at the end of the pass, so that every pass drains the tensor-parallel stream.
void insert_waits(BlockProgram& block);

/// Derives when every microbatch buffer exists (BufferLife). Pre: waits are inserted.
void derive_liveness(BlockProgram& block);

}  // namespace stagecraft
