#include <cmath>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/operands/norm_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// y = (x - mean) / std weight [+ bias], and the statistics; RMSNorm: without mean and bias.
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads) norm_rows(S const* x,
                                                              S const* weight,
                                                              S const* bias,
                                                              S* y,
                                                              NormStatistics<Compute<S>> moments,
                                                              Compute<S> epsilon) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  if (row >= moments.rows) return;
  std::int64_t const n = moments.columns;
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(
      n, [&](int k, int column) { values[k] = load_pack<width>(x + row * n + column); });
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
  C const inverse = C{1} / std::sqrt(row_sum(square) / static_cast<C>(n) + epsilon);
  if (threadIdx.x == 0) moments.inverse[row] = inverse;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(weight + column);
    Pack<S, width> const shift = load_pack_or_zeros<width>(bias, column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] =
          narrow<S>((widen(values[k][i]) - mean) * inverse * widen(scale[i]) + widen(shift[i]));
    }
    store_pack(y + row * n + column, out);
  });
}

/// dx = (g - mean(g) - xhat mean(g xhat)) / std with g = dy weight; RMSNorm: without mean(g).
template <typename S, int width, int held>
__global__ void __launch_bounds__(most_row_threads) norm_backward_rows(
    S const* dy, S const* x, S const* weight, S* dx, NormStatistics<Compute<S>> moments) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  if (row >= moments.rows) return;
  std::int64_t const n = moments.columns;
  C const mean = moments.mean_of(row);
  C const inverse = moments.inverse[row];
  Pack<S, width> gradient[accesses];
  Pack<S, width> values[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    gradient[k] = load_pack<width>(dy + row * n + column);
    values[k] = load_pack<width>(x + row * n + column);
  });
  C sum_g = 0;
  C sum_gx = 0;
  for_accesses<width, accesses>(n, [&](int k, int column) {
    Pack<S, width> const scale = load_pack<width>(weight + column);
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
    Pack<S, width> const scale = load_pack<width>(weight + column);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const normal = (widen(values[k][i]) - mean) * inverse;
      out[i] = narrow<S>((widen(gradient[k][i]) * widen(scale[i]) - mean_g - normal * mean_gx) *
                         inverse);
    }
    store_pack(dx + row * n + column, out);
  });
}

}  // namespace

void norm(CudaContext const& context, KernelCall const& call) {
  bool const centred = attributes_of<NormAttributes>(call).subtracts_mean();
  std::size_t const weights = centred ? 2 : 1;
  expect(call, call.reads.size() == 1 + weights, "a weight or a bias is missing or superfluous");
  Operand const& x = call.reads[0];
  with_storage_type(call.kind, x.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    auto const moments = statistics_of<S>(call, x, call.writes[1]);
    std::int64_t const n = moments.columns;
    expect_tensor(call, call.reads[1], element_type<S>(), {n});
    if (centred) expect_tensor(call, call.reads[2], element_type<S>(), {n});
    expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
    S const* const input = elements_of<S>(x);
    S const* const weight = elements_of<S>(call.reads[1]);
    S const* const bias = centred ? elements_of<S>(call.reads[2]) : nullptr;
    S* const output = elements_of<S>(call.writes[0]);
    if (moments.rows == 0) return;
    bool const fits = can_pack(pack_width<S>, input, weight, bias, output);
    with_held_row<S>(call.kind, n, fits, [&](auto width, auto held) {
      RowLaunch const grid = row_launch(moments.rows, (n + held - 1) / held);
      launch(norm_rows<S, width, held>, grid.blocks, grid.threads, context.stream, input, weight,
             bias, output, moments, static_cast<C>(attributes_of<NormAttributes>(call).epsilon));
    });
  });
}

void norm_backward(CudaContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[1];
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    auto const moments = statistics_of<S>(call, x, call.reads[2]);
    std::int64_t const n = moments.columns;
    expect_tensor(call, call.reads[0], element_type<S>(), x.shape);
    expect_tensor(call, call.reads[3], element_type<S>(), {n});
    expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
    S const* const dy = elements_of<S>(call.reads[0]);
    S const* const input = elements_of<S>(x);
    S const* const weight = elements_of<S>(call.reads[3]);
    S* const dx = elements_of<S>(call.writes[0]);
    if (moments.rows == 0) return;
    bool const fits = can_pack(pack_width<S>, dy, input, weight, dx);
    with_held_row<S>(call.kind, n, fits, [&](auto width, auto held) {
      RowLaunch const grid = row_launch(moments.rows, (n + held - 1) / held);
      launch(norm_backward_rows<S, width, held>, grid.blocks, grid.threads, context.stream, dy,
             input, weight, dx, moments);
    });
  });
}

}  // namespace stagecraft::cuda_ops
