#pragma once

#include "libsim/modules/attention/attention.hpp"

/// Attention of ranks that split sequences, among which keys and values go round: in step i of as
/// many as there are ranks, a rank attends to those of the rank i before it, while the next ones
/// arrive. Backward they go the other way round, starting with those that arrived last, together
/// with the sum of their gradients.
///
/// With b sequences, s/c rows of a rank, K = V = k/t elements of a row in 16 bits:
///   forward   c - 1 messages of 4 (s/c) b k/t bytes. All c buffers of them live until the end, as
///   do
///             the c parts of the context, which are then rescaled into one.
///   saved     q, the keys and values that arrived last, context, log_sum_exp.
///   backward  4 (s/c) b k/t bytes in the first and the last message, 8 in those between; two
///             buffers of 8.
/// A step's causal half, or its half of rows or keys, has half of the pairs on every rank. The
/// buffers are those of the last rank, which has all queries in each step: the others need less.
///
/// If ranks have consecutive rows (BlockShape::contiguous_keys), rank r has nothing to do in the
/// steps behind step r, in which it has the keys of ranks behind it. The last rank, which the
/// others wait for, has the causal half in its first step and all pairs in the c - 1 others: (2 c -
/// 1) / c times as many as each of the ranks with two chunks. Messages and buffers are the same.
/// Source: TransformerEngine d0067d0, attention/dot_product_attention/context_parallel.py,
/// AttnFuncWithCPAndKVP2P; Liu et al. 2023 (Ring Attention), arXiv:2310.01889; of consecutive rows,
/// zhuzilin/ring-flash-attention 8996282, ring_flash_attn/ring_flash_attn.py, whose buffers differ.
namespace stagecraft {

/// Writes attention.attended, and sets the tensors that backward reads.
void ring_forward(ProgramBuilder& builder, AttentionLayer& attention);
QkvGradients ring_backward(ProgramBuilder& builder,
                           AttentionLayer const& attention,
                           TensorId d_context);

}  // namespace stagecraft
