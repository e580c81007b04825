#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// Which rows are those of a token.
namespace stagecraft {

/// The rows of each token, as op_kinds.def describes a row_map.
struct RowMap {
  std::int32_t* data = nullptr;
  std::int64_t tokens = 0;
  std::int64_t experts = 0;  ///< of the rank; of a rank_map ranks in place of them

  STAGECRAFT_HOST_DEVICE std::int32_t* of(std::int64_t token) const {
    return data + token * (2 * experts + 1);
  }
  STAGECRAFT_HOST_DEVICE std::int32_t& count(std::int64_t token) const {
    return of(token)[2 * experts];
  }
  STAGECRAFT_HOST_DEVICE std::int32_t& row(std::int64_t token, std::int64_t i) const {
    return of(token)[i];
  }
  STAGECRAFT_HOST_DEVICE std::int32_t& expert(std::int64_t token, std::int64_t i) const {
    return of(token)[experts + i];
  }
};

inline RowMap row_map_of(KernelCall const& call, Operand const& operand) {
  expect(call, operand.shape.rank() == 2 && operand.shape[1] % 2 == 1,
         "a row map is not [tokens, 2 experts + 1]");
  expect_tensor(call, operand, ElementType::i32, operand.shape);
  return {elements_of<std::int32_t>(operand), operand.shape[0], operand.shape[1] / 2};
}

/// Elements of a token of a hidden state [s, b, h].
inline std::int64_t width_of(KernelCall const& call, Operand const& x, RowMap const& rows) {
  std::int64_t const width = last_extent(x);
  expect(call, x.shape.elements() == rows.tokens * width, "tokens and row map differ in number");
  return width;
}

/// Expects rows [rows, width], and y of the tokens whose sums they are, or which are copied to
/// them; returns the width.
template <typename S>
std::int64_t expect_rows_of_tokens(KernelCall const& call,
                                   RowMap const& rows,
                                   Operand const& of_rows,
                                   Operand const& of_tokens) {
  std::int64_t const width = width_of(call, of_tokens, rows);
  expect_elements(call, of_rows, element_type<S>(), of_rows.shape.elements());
  expect_elements(call, of_tokens, element_type<S>(), rows.tokens * width);
  return width;
}

}  // namespace stagecraft
