#pragma once

#include <cstdint>
#include <cstring>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_map.hpp"
#include "libexec/kernels/row_ranges.hpp"

/// What the CPU does with the rows of tokens.
namespace stagecraft::STAGECRAFT_ISA {

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

/// y[token] = sum of the token's rows, in the order of their experts.
template <typename S>
void sum_rows(KernelContext const& context,
              KernelCall const& call,
              RowMap const& rows,
              Operand const& from,
              Operand const& y) {
  using C = Compute<S>;
  std::int64_t const width = expect_rows_of_tokens<S>(call, rows, from, y);
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
  std::int64_t const width = expect_rows_of_tokens<S>(call, rows, to, x);
  for_tokens(context, rows, width, [&](std::int64_t token) {
    S const* const from = elements_of<S>(x) + token * width;
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      std::memcpy(elements_of<S>(to) + rows.row(token, j) * width, from,
                  static_cast<std::size_t>(width) * sizeof(S));
    }
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
