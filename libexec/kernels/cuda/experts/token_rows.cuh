#pragma once

#include <cstdint>

#include "libexec/kernels/cuda/cuda_context.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/token_choices.hpp"

/// Tokens and their rows, as `kernels/cpu/token_rows` has them.
namespace stagecraft::cuda_ops {

/// y[token] = sum of the token's rows, in the order of their experts.
template <typename S>
struct SumRows {
  static constexpr int in_flight = 1;
  RowMap rows;
  S const* from;
  S* y;
  std::int64_t width_of_token;

  template <int width>
  struct Loaded {
    Compute<S> sum[width];
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    Loaded<width> all{};
    std::int32_t const count = rows.count(at.row);
#pragma unroll 4
    for (std::int32_t j = 0; j < count; ++j) {
      Pack<S, width> const values =
          load_pack<width>(from + rows.row(at.row, j) * width_of_token + at.column);
#pragma unroll
      for (int i = 0; i < width; ++i) all.sum[i] += widen(values[i]);
    }
    return all;
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<S>(in.sum[i]);
    store_pack(y + at.element, out);
  }
};

/// Copies each token to all of its rows.
template <typename S>
struct SpreadRows {
  static constexpr int in_flight = 1;
  RowMap rows;
  S const* x;
  S* to;
  std::int64_t width_of_token;

  template <int width>
  struct Loaded {
    Pack<S, width> values;
    std::int32_t count;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int32_t const count = rows.count(at.row);
    // A token that has not arrived is not read.
    return {load_pack_or_zeros<width>(count > 0 ? x : nullptr, at.element), count};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
#pragma unroll 4
    for (std::int32_t j = 0; j < in.count; ++j) {
      store_pack(to + rows.row(at.row, j) * width_of_token + at.column, in.values);
    }
  }
};

template <typename S>
void sum_rows(CudaContext const& context,
              KernelCall const& call,
              RowMap const& rows,
              Operand const& from,
              Operand const& y) {
  std::int64_t const columns = expect_rows_of_tokens<S>(call, rows, from, y);
  SumRows<S> const body{rows, elements_of<S>(from), elements_of<S>(y), columns};
  constexpr int width = pack_width<S>;
  launch_element_wise<width>(context.stream, extent_of(rows.tokens, columns),
                             can_pack(width, body.from, body.y), body);
}

template <typename S>
void spread_rows(CudaContext const& context,
                 KernelCall const& call,
                 RowMap const& rows,
                 Operand const& x,
                 Operand const& to) {
  std::int64_t const columns = expect_rows_of_tokens<S>(call, rows, to, x);
  SpreadRows<S> const body{rows, elements_of<S>(x), elements_of<S>(to), columns};
  constexpr int width = pack_width<S>;
  launch_element_wise<width>(context.stream, extent_of(rows.tokens, columns),
                             can_pack(width, body.x, body.to), body);
}

}  // namespace stagecraft::cuda_ops
