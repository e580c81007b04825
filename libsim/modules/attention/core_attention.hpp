#pragma once

#include <cmath>
#include <string_view>

#include "libsim/modules/attention/attention.hpp"
#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// The module of these ops: a part of a layer that recompute can choose.
inline constexpr std::string_view core_attention = "core_attention";

inline bool drops_probabilities(ProgramBuilder const& builder) {
  return attention_dropout(builder.shape().model) > 0;
}

/// The dropout of the probabilities; heads are split over the tensor group.
inline DropoutAttributes probability_dropout(ProgramBuilder const& builder) {
  BlockShape const& shape = builder.shape();
  return {.site = DropoutSite::attention,
          .rate = attention_dropout(shape.model),
          .shards = shape.tensor};
}

inline double score_scale(ProgramBuilder const& builder) {
  return 1.0 / std::sqrt(static_cast<double>(builder.shape().model.head_dim));
}

/// Operands of flash attention on one rank.
struct FlashOperands {
  TensorId q = no_tensor;            ///< [queries, b, heads, d]
  TensorId k = no_tensor;            ///< [keys, b, kv heads, d]
  TensorId v = no_tensor;            ///< [keys, b, kv heads, d']
  TensorId context = no_tensor;      ///< [queries, b, heads d']
  TensorId log_sum_exp = no_tensor;  ///< [b, heads, queries]
  TensorId sinks = no_tensor;        ///< [heads]: scores of no key; optional
};

/// Makes [b, heads, queries] numbers of the type of gradients for queries `q`.
TensorId make_log_sums(ProgramBuilder& builder, TensorId q, std::string_view name);
/// Makes the gradients of operands.
QkvGradients make_gradients(ProgramBuilder& builder, FlashOperands const& operands);

/// Appends one call. It writes context and log_sum_exp of the queries of `part`, in the operands'
/// rows; in all other rows, context becomes 0 and log_sum_exp the logarithm of 0.
///
/// Work: 4 b h/t FLOPs for each pair of a query and a key that it sees. In a ring of ranks with two
/// chunks each, all steps have the same number of pairs. In a ring of consecutive rows they are
/// counted for the last rank; for chunks of gathered keys, as the mean over the ranks.
/// Source: Dao 2023, section 3.
void flash_forward(ProgramBuilder& builder,
                   FlashOperands const& operands,
                   AttentionPart const& part = {});
/// Appends the gradients through the same pairs. context and log_sum_exp are those of all keys. The
/// sinks' gradient is -exp(sink - log_sum_exp) d_context . context, summed over rows. Rows without
/// a pair become 0. Work: 2.5 times the forward's.
void flash_backward(ProgramBuilder& builder,
                    FlashOperands const& operands,
                    TensorId d_context,
                    QkvGradients const& gradients,
                    AttentionPart const& part = {});

/// Appends what makes queries, keys and values in 8 bits, if core attention multiplies these
/// (quantised_attention.cpp). Each operand has one scale, whatever the recipe is.
/// Source: Transformer Engine, pytorch/attention/dot_product_attention/utils.py,
/// combine_and_quantize.
void quantise_heads(ProgramBuilder& builder, AttentionLayer& attention);
/// The gradient of the context as the products read it.
TensorId quantise_context_gradient(ProgramBuilder& builder, TensorId d_context);

/// Core attention if each rank gathers all keys (gathered_attention.cpp): writes
/// attention.attended, and sets the tensors that backward reads.
void gathered_forward(ProgramBuilder& builder, AttentionLayer& attention);
QkvGradients gathered_backward(ProgramBuilder& builder,
                               AttentionLayer const& attention,
                               TensorId d_context);

/// Core attention if keys go round (ring_attention.cpp): writes and sets the same.
void ring_forward(ProgramBuilder& builder, AttentionLayer& attention);
QkvGradients ring_backward(ProgramBuilder& builder,
                           AttentionLayer const& attention,
                           TensorId d_context);

/// If ranks exchange rows for heads (ulysses_exchange.cpp): exchanges q, k and v [s/c, b, heads,
/// d], which become [s, b, heads/c, d].
void exchange_for_heads(ProgramBuilder& builder, AttentionLayer& attention);
/// Exchanges a context [s, b, width/c] back into one [s/c, b, width].
void exchange_for_rows(ProgramBuilder& builder, TensorId of_heads, TensorId of_rows);
/// The gradient of the context that exchange_for_rows() reads.
TensorId exchange_gradient_for_heads(ProgramBuilder& builder, TensorId d_context);
/// The gradients of q, k and v that exchange_for_heads() reads.
QkvGradients exchange_gradients_for_rows(ProgramBuilder& builder, QkvGradients const& of_heads);

}  // namespace stagecraft
