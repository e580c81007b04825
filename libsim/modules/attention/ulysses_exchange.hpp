#pragma once

#include "libsim/modules/attention/attention.hpp"

/// Ranks that split sequences exchange rows for heads before core attention, and back after it:
/// each attends to the rows of all of them with 1/c of the heads.
///
/// Each exchange packs or unpacks its tensor by a copy. If the ranks have their rows in zigzag
/// order, because others of them exchange keys as well, another copy puts the rows in order, or
/// back.
/// Source: Jacobs et al. 2023, DeepSpeed Ulysses, section 3.1; TransformerEngine,
/// attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndQKVOA2A.
namespace stagecraft {

/// Exchanges q [s/c, b, heads, d], k and v, which become [s, b, heads/c, d].
void exchange_for_heads(ProgramBuilder& builder, AttentionLayer& attention);
/// Exchanges a context [s, b, width/c] back into one [s/c, b, width].
void exchange_for_rows(ProgramBuilder& builder, TensorId of_heads, TensorId of_rows);
/// The gradient of what exchange_for_rows() reads.
TensorId exchange_gradient_for_heads(ProgramBuilder& builder, TensorId d_context);
/// The gradients of what exchange_for_heads() reads.
QkvGradients exchange_gradients_for_rows(ProgramBuilder& builder, QkvGradients const& of_heads);

}  // namespace stagecraft
