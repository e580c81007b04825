#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

/// Logits [s, b, words] on one rank.
struct LogitRows {
  std::int64_t rows = 0;
  std::int64_t words = 0;  ///< columns on this rank, padding included
  std::int64_t valid = 0;  ///< columns before the padding
  std::int64_t first_word = 0;

  /// The column of a label, or -1 if another rank has it.
  STAGECRAFT_HOST_DEVICE std::int64_t column_of(std::int64_t label) const {
    std::int64_t const column = label - first_word;
    return column >= 0 && column < valid ? column : -1;
  }
};

inline LogitRows expect_logits(int tensor_rank, KernelCall const& call, Operand const& logits) {
  expect(call, logits.shape.rank() == 3, "the logits are not [s, b, words of this rank]");
  expect_tensor(call, logits, logits.type, logits.shape);
  LogitRows rows{.rows = logits.shape[0] * logits.shape[1],
                 .words = logits.shape[2],
                 .first_word = tensor_rank * logits.shape[2]};
  rows.valid = std::clamp<std::int64_t>(
      attributes_of<VocabularyAttributes>(call).words - rows.first_word, 0, rows.words);
  return rows;
}

/// Expects one value per token.
inline void expect_tokens(KernelCall const& call,
                          Operand const& operand,
                          ElementType type,
                          Operand const& logits) {
  expect_tensor(call, operand, type, {logits.shape[0], logits.shape[1]});
}

/// Calls `body(C{})` for the type in which logits are computed on, float or double.
template <typename Body>
void with_logit_type(KernelCall const& call, ElementType type, Body const& body) {
  if (type == ElementType::f32) return body(float{});
  if (type == ElementType::f64) return body(double{});
  refuse(call.kind, "the logits are neither f32 nor f64");
}

}  // namespace stagecraft
