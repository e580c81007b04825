#pragma once

#include <cmath>
#include <string_view>

#include "libsim/modules/attention/attention.hpp"
#include "libsim/program/program_builder.hpp"

namespace stagecraft {

/// The part of a layer to which they belong.
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

/// Appends one call: context and log_sum_exp of the queries that `part` has, in the operands' rows;
/// the other rows become 0 and the logarithm of 0.
///
/// Work: 4 b h/t FLOPs for each pair of a query and a key that it sees, which are the same number
/// in all steps of a ring of ranks with two chunks each, those of the last rank in a ring of
/// consecutive rows, and the mean over the ranks for the chunks of gathered keys.
/// Source: Dao 2023, section 3.
void flash_forward(ProgramBuilder& builder,
                   FlashOperands const& operands,
                   AttentionPart const& part = {});
/// Appends the gradients through the same pairs, in which context and log_sum_exp are those of all
/// keys; and the sinks', -exp(sink - log_sum_exp) d_context . context summed over rows. Rows
/// without a pair become 0. Work: 2.5 times the forward's.
void flash_backward(ProgramBuilder& builder,
                    FlashOperands const& operands,
                    TensorId d_context,
                    QkvGradients const& gradients,
                    AttentionPart const& part = {});

/// If each rank gathers all keys (gathered_attention.cpp): writes attention.attended, and sets the
/// tensors that backward reads.
void gathered_forward(ProgramBuilder& builder, AttentionLayer& attention);
QkvGradients gathered_backward(ProgramBuilder& builder,
                               AttentionLayer const& attention,
                               TensorId d_context);

/// The same if keys go round (ring_attention.cpp).
void ring_forward(ProgramBuilder& builder, AttentionLayer& attention);
QkvGradients ring_backward(ProgramBuilder& builder,
                           AttentionLayer const& attention,
                           TensorId d_context);

/// If ranks exchange rows for heads (ulysses_exchange.cpp): exchanges q [s/c, b, heads, d], k and
/// v, which become [s, b, heads/c, d].
void exchange_for_heads(ProgramBuilder& builder, AttentionLayer& attention);
/// Exchanges a context [s, b, width/c] back into one [s/c, b, width].
void exchange_for_rows(ProgramBuilder& builder, TensorId of_heads, TensorId of_rows);
/// The gradient of what exchange_for_rows() reads.
TensorId exchange_gradient_for_heads(ProgramBuilder& builder, TensorId d_context);
/// The gradients of what exchange_for_heads() reads.
QkvGradients exchange_gradients_for_rows(ProgramBuilder& builder, QkvGradients const& of_heads);

}  // namespace stagecraft
