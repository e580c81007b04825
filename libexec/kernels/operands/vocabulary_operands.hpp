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

/// A rank's rows of the embedding table.
struct WordLookup {
  std::int64_t first_word = 0;
  std::int64_t words = 0;

  /// The row that holds a token, or -1 if another rank has it.
  STAGECRAFT_HOST_DEVICE std::int64_t row_of(std::int64_t token) const {
    std::int64_t const row = token - first_word;
    return row >= 0 && row < words ? row : -1;
  }
};

/// Expects tokens [s, b], rows [s, b, h] and a table [words, h].
inline WordLookup expect_lookup(int tensor_rank,
                                KernelCall const& call,
                                Operand const& tokens,
                                Operand const& rows,
                                Operand const& table) {
  expect(call, rows.shape.rank() == 3 && table.shape.rank() == 2, "an operand's rank is wrong");
  expect_tensor(call, tokens, ElementType::i64, {rows.shape[0], rows.shape[1]});
  expect_tensor(call, rows, rows.type, rows.shape);
  expect_tensor(call, table, table.type, {table.shape[0], rows.shape[2]});
  return {tensor_rank * table.shape[0], table.shape[0]};
}

}  // namespace stagecraft
