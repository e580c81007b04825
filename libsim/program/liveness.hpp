#pragma once

#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// Inserts the compute stream's waits for collectives: directly after a collective that is not
/// asynchronous; otherwise before the first op that conflicts with the collective's operands, at
/// the latest at the end of the pass. So every pass drains the tensor-parallel stream. That op may
/// be a collective of another group: the wait before it stalls the compute stream too.
void insert_waits(BlockProgram& block);

/// Derives when each microbatch buffer exists (BufferLife). Pre: waits are inserted.
void derive_liveness(BlockProgram& block);

/// Splits the backward of a finished block in two passes, each with waits and lives of its own.
///
/// The second pass has the weight gradients of matrix products, with the gathers of their inputs;
/// these inputs and the output gradients stay until then. The first pass has all else: also
/// recompute, directly before the gradients that need it, and the gradients of biases, norms and
/// embeddings, which the kernels of the input gradients compute. If the policy recomputes again for
/// weight gradients, recomputed inputs are released after the first pass, and the second recomputes
/// them (with_recompute_again()).
/// Source: Megatron-LM and sail-sg/zero-bubble, LinearWithGradAccumulationAndAsyncCommunication.
/// \\throws std::logic_error  if an op of the first pass overwrites what the second still needs.
void split_backward(BlockProgram& block);

}  // namespace stagecraft
