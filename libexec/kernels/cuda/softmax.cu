#include <limits>

#include "libexec/kernels/attention_scores.hpp"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/exponential.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = softmax(scale x) over the columns up to the diagonal, which alone are read; 0 in the others.
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads)
    softmax_rows(S const* x, S* y, std::int64_t rows, std::int64_t s, Compute<S> scale) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  if (row >= rows) return;
  std::int64_t const n = row % s + 1;
  C values[accesses][width];
  C maximum = -std::numeric_limits<C>::infinity();
  Pack<S, width> loaded[accesses];
  for_accesses<width, accesses>(
      n, [&](int k, int column) { loaded[k] = load_pack<width>(x + row * s + column); });
  for_accesses<width, accesses>(n, [&](int k, int column) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      values[k][i] = widen(loaded[k][i]);
      if (column + i < n) maximum = larger(maximum, values[k][i]);
    }
  });
  maximum = row_maximum(maximum);
  C sum = 0;
  for_accesses<width, accesses>(n, [&](int k, int column) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      values[k][i] = column + i < n ? exponential((values[k][i] - maximum) * scale) : C{0};
      sum += values[k][i];
    }
  });
  C const inverse = C{1} / row_sum(sum);
  for_accesses<width, accesses>(s, [&](int k, int column) {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(column + i < n ? values[k][i] * inverse : C{0});
    }
    store_pack(y + row * s + column, out);
  });
}

/// d = (d - sum(d y)) y scale, in place; only the columns up to the diagonal are read.
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads)
    softmax_backward_rows(S* d, S const* y, std::int64_t rows, std::int64_t s, Compute<S> scale) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  if (row >= rows) return;
  std::int64_t const n = row % s + 1;
  Pack<S, width> gradient[accesses];
  Pack<S, width> output[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    gradient[k] = load_pack<width>(d + row * s + column);
    output[k] = load_pack<width>(y + row * s + column);
  });
  C dot = 0;
  for_accesses<width, accesses>(n, [&](int k, int column) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      if (column + i < n) dot += widen(gradient[k][i]) * widen(output[k][i]);
    }
  });
  dot = row_sum(dot);
  for_accesses<width, accesses>(s, [&](int k, int column) {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = column + i < n
                   ? narrow<S>((widen(gradient[k][i]) - dot) * widen(output[k][i]) * scale)
                   : narrow<S>(C{0});
    }
    store_pack(d + row * s + column, out);
  });
}

}  // namespace

void causal_softmax(CudaContext const& context, KernelCall const& call) {
  expect_operands(call, 1, 1, 1, 1);
  Operand const& scores = call.reads[0];
  with_storage_type(call.kind, scores.type, [&](auto tag) {
    using S = decltype(tag);
    std::int64_t const s = expect_scores<S>(call, scores);
    expect_tensor(call, call.writes[0], element_type<S>(), scores.shape);
    S const* const x = elements_of<S>(scores);
    S* const y = elements_of<S>(call.writes[0]);
    std::int64_t const rows = scores.shape.elements() / s;
    if (rows == 0) return;
    with_held_row<S>(call.kind, s, can_pack(pack_width<S>, x, y), [&](auto width, auto held) {
      RowLaunch const grid = row_launch(rows, (s + held - 1) / held);
      launch(softmax_rows<S, width, held>, grid.blocks, grid.threads, context.stream, x, y, rows, s,
             score_scale<S>(context.model()));
    });
  });
}

void causal_softmax_backward(CudaContext const& context, KernelCall const& call) {
  expect_operands(call, 2, 2, 1, 1);
  expect_in_place(call, 0, 0);
  Operand const& gradient = call.writes[0];
  with_storage_type(call.kind, gradient.type, [&](auto tag) {
    using S = decltype(tag);
    std::int64_t const s = expect_scores<S>(call, gradient);
    expect_tensor(call, call.reads[1], element_type<S>(), gradient.shape);
    S* const d = elements_of<S>(gradient);
    S const* const y = elements_of<S>(call.reads[1]);
    std::int64_t const rows = gradient.shape.elements() / s;
    if (rows == 0) return;
    with_held_row<S>(call.kind, s, can_pack(pack_width<S>, d, y), [&](auto width, auto held) {
      RowLaunch const grid = row_launch(rows, (s + held - 1) / held);
      launch(softmax_backward_rows<S, width, held>, grid.blocks, grid.threads, context.stream, d, y,
             rows, s, score_scale<S>(context.model()));
    });
  });
}

}  // namespace stagecraft::cuda_ops
