#pragma once

#include <cstdint>

#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

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
