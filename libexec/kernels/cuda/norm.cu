#include <cmath>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/operands/norm_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = (x - mean) / std weight [+ bias], and the statistics; RMSNorm: without mean and bias.
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads) norm_rows(NormOperands<S> of) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  auto const& moments = of.moments;
  if (row >= moments.rows) return;
  std::int64_t const n = moments.columns;
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(
      n, [&](int k, int column) { values[k] = load_pack<width>(of.x + row * n + column); });
  C mean = 0;
  if (moments.mean != nullptr) {
    C sum = 0;
    for_accesses<width, accesses>(n, [&](int k, int) {
#pragma unroll
      for (int i = 0; i < width; ++i) sum += widen(values[k][i]);
    });
    mean = row_sum(sum) / static_cast<C>(n);
    if (threadIdx.x == 0) moments.mean[row] = mean;
  }
  // A second pass avoids the cancellation in the difference of the means of x^2 and x.
  C square = 0;
  for_accesses<width, accesses>(n, [&](int k, int) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const centred = widen(values[k][i]) - mean;
      square += centred * centred;
    }
  });
  C const inverse = C{1} / std::sqrt(row_sum(square) / static_cast<C>(n) + of.epsilon);
  if (threadIdx.x == 0) moments.inverse[row] = inverse;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(of.weight + column);
    Pack<S, width> const shift = load_pack_or_zeros<width>(of.bias, column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] =
          narrow<S>((widen(values[k][i]) - mean) * inverse * widen(scale[i]) + widen(shift[i]));
    }
    store_pack(of.y + row * n + column, out);
  });
}

/// dx = (g - mean(g) - xhat mean(g xhat)) / std with g = dy weight; RMSNorm: without mean(g).
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads) norm_backward_rows(NormBackwardOperands<S> of) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  auto const& moments = of.moments;
  if (row >= moments.rows) return;
  std::int64_t const n = moments.columns;
  C const mean = moments.mean_of(row);
  C const inverse = moments.inverse[row];
  Pack<S, width> gradient[accesses];
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    gradient[k] = load_pack<width>(of.dy + row * n + column);
    values[k] = load_pack<width>(of.x + row * n + column);
  });
  C sum_g = 0;
  C sum_gx = 0;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(of.weight + column);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const g = widen(gradient[k][i]) * widen(scale[i]);
      sum_g += g;
      sum_gx += g * ((widen(values[k][i]) - mean) * inverse);
    }
  });
  C const mean_g = moments.mean != nullptr ? row_sum(sum_g) / static_cast<C>(n) : C{0};
  C const mean_gx = row_sum(sum_gx) / static_cast<C>(n);
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(of.weight + column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const normal = (widen(values[k][i]) - mean) * inverse;
      out[i] = narrow<S>((widen(gradient[k][i]) * widen(scale[i]) - mean_g - normal * mean_gx) *
                         inverse);
    }
    store_pack(of.dx + row * n + column, out);
  });
}

}  // namespace

void norm(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_norm<S>(call);
    std::int64_t const n = of.moments.columns;
    if (of.moments.rows == 0) return;
    bool const fits = can_pack(pack_width<S>, of.x, of.weight, of.bias, of.y);
    with_held_row<S>(call.kind, n, fits, [&](auto width, auto held) {
      RowLaunch const grid = row_launch(of.moments.rows, (n + held - 1) / held);
      launch(norm_rows<S, width, held>, grid.blocks, grid.threads, context.stream, of);
    });
  });
}

void norm_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_norm_backward<S>(call);
    std::int64_t const n = of.moments.columns;
    if (of.moments.rows == 0) return;
    bool const fits = can_pack(pack_width<S>, of.dy, of.x, of.weight, of.dx);
    with_held_row<S>(call.kind, n, fits, [&](auto width, auto held) {
      RowLaunch const grid = row_launch(of.moments.rows, (n + held - 1) / held);
      launch(norm_backward_rows<S, width, held>, grid.blocks, grid.threads, context.stream, of);
    });
  });
}

}  // namespace stagecraft::cuda_ops
