#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

/// Which rows are those of a token, and what is done with them.
namespace stagecraft::STAGECRAFT_ISA {

/// The rows of each token, as op_kinds.def describes a row_map.
struct RowMap {
  std::int32_t* data = nullptr;
  std::int64_t tokens = 0;
  std::int64_t experts = 0;  ///< of the rank; of a rank_map ranks in place of them

  std::int32_t* of(std::int64_t token) const { return data + token * (2 * experts + 1); }
  std::int32_t& count(std::int64_t token) const { return of(token)[2 * experts]; }
  std::int32_t& row(std::int64_t token, std::int64_t i) const { return of(token)[i]; }
  std::int32_t& expert(std::int64_t token, std::int64_t i) const { return of(token)[experts + i]; }
};

inline RowMap row_map_of(KernelCall const& call, Operand const& operand) {
  expect(call, operand.shape.rank() == 2 && operand.shape[1] % 2 == 1,
         "a row map is not [tokens, 2 experts + 1]");
  expect_tensor(call, operand, ElementType::i32, operand.shape);
  return {elements_of<std::int32_t>(operand), operand.shape[0], operand.shape[1] / 2};
}

/// Calls body(token) for all tokens, concurrently.
template <typename Body>
void for_tokens(KernelContext const& context,
                RowMap const& rows,
                std::int64_t width,
                Body const& body) {
  for_row_ranges(*context.pool, rows.tokens, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) body(token);
  });
}

/// Elements of a token of a hidden state [s, b, h].
inline std::int64_t width_of(KernelCall const& call, Operand const& x, RowMap const& rows) {
  std::int64_t const width = last_extent(x);
  expect(call, x.shape.elements() == rows.tokens * width, "tokens and row map differ in number");
  return width;
}

/// y[token] = sum of the token's rows, in the order of their experts.
template <typename S>
void sum_rows(KernelContext const& context,
              KernelCall const& call,
              RowMap const& rows,
              Operand const& from,
              Operand const& y) {
  using C = Compute<S>;
  std::int64_t const width = width_of(call, y, rows);
  expect_elements(call, from, element_type<S>(), from.shape.elements());
  expect_elements(call, y, element_type<S>(), rows.tokens * width);
  for_tokens(context, rows, width, [&](std::int64_t token) {
    S* const to = elements_of<S>(y) + token * width;
    std::int32_t const count = rows.count(token);
    for (std::int64_t i = 0; i < width; ++i) {
      C sum = 0;
      for (std::int32_t j = 0; j < count; ++j) {
        sum += widen(elements_of<S>(from)[rows.row(token, j) * width + i]);
      }
      to[i] = narrow<S>(sum);
    }
  });
}

/// Copies each token to all of its rows.
template <typename S>
void spread_rows(KernelContext const& context,
                 KernelCall const& call,
                 RowMap const& rows,
                 Operand const& x,
                 Operand const& to) {
  std::int64_t const width = width_of(call, x, rows);
  expect_elements(call, x, element_type<S>(), rows.tokens * width);
  expect_elements(call, to, element_type<S>(), to.shape.elements());
  for_tokens(context, rows, width, [&](std::int64_t token) {
    S const* const from = elements_of<S>(x) + token * width;
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      std::memcpy(elements_of<S>(to) + rows.row(token, j) * width, from,
                  static_cast<std::size_t>(width) * sizeof(S));
    }
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
