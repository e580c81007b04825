#pragma once

#include "libsim/modules/attention/attention.hpp"

/// Attention of ranks that split sequences, each of which gathers the keys and values of all. A
/// rank attends with its two chunks of rows one after the other, each to the keys up to its end.
///
/// With S rows of a sequence and k/t elements of a row in 16 bits: gathered keys and values, and
/// copies of them in the order of the sequence, 6 S b k/t bytes at the same time; backward gathers
/// again, beside the gradients of all keys and values, which are added up from those of each chunk,
/// reordered and reduced over the ranks. Nothing hides the collectives. Of the chunks' gradients of
/// keys, which differ in length by rank, the buffers are of the longest.
/// Source: TransformerEngine d0067d0, attention/dot_product_attention/context_parallel.py,
/// AttnFuncWithCPAndKVAllGather; Llama 3 (arXiv:2407.21783), section 3.3.2.
namespace stagecraft {

/// Writes attention.attended, and sets the tensors that backward reads.
void gathered_forward(ProgramBuilder& builder, AttentionLayer& attention);
QkvGradients gathered_backward(ProgramBuilder& builder,
                               AttentionLayer const& attention,
                               TensorId d_context);

}  // namespace stagecraft
