#pragma once

#include <string_view>

#include "libsim/modules/attention/attention.hpp"

namespace stagecraft {

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

}  // namespace stagecraft
