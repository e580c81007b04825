#include "libexec/kernels/cuda/column_sums.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/operands/norm_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// dy.
template <typename S>
struct BiasTerm {
  using Sum = Compute<S>;
  static constexpr int outputs = 1;
  S const* dy;
  std::int64_t columns;

  template <int width>
  __device__ void add(std::int64_t row, std::int64_t column, Sum (&sum)[1][width]) const {
    Pack<S, width> const in = load_pack<width>(dy + row * columns + column);
#pragma unroll
    for (int i = 0; i < width; ++i) sum[0][i] += widen(in[i]);
  }
};

/// dy xhat and, if there is a bias, dy.
template <typename S, int count>
struct NormTerm {
  using Sum = Compute<S>;
  static constexpr int outputs = count;
  S const* dy;
  S const* x;
  NormStatistics<Sum> moments;

  template <int width>
  __device__ void add(std::int64_t row, std::int64_t column, Sum (&sum)[count][width]) const {
    Pack<S, width> const gradient = load_pack<width>(dy + row * moments.columns + column);
    Pack<S, width> const values = load_pack<width>(x + row * moments.columns + column);
    Sum const mean = moments.mean_of(row);
    Sum const inverse = moments.inverse[row];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sum[0][i] += widen(gradient[i]) * ((widen(values[i]) - mean) * inverse);
      if constexpr (count == 2) sum[1][i] += widen(gradient[i]);
    }
  }
};

}  // namespace

void bias_gradient(CudaContext const& context, KernelCall const& call) {
  Operand const& dy = call.reads[0];
  expect(call, dy.shape.rank() > 0 && last_extent(dy) > 0, "dy has no columns");
  std::int64_t const n = last_extent(dy);
  with_storage_type(call.kind, dy.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    expect_tensor(call, dy, element_type<S>(), dy.shape);
    expect_tensor(call, call.writes[0], element_type<C>(), {n});
    BiasTerm<S> const term{elements_of<S>(dy), n};
    column_sums::add_column_sums<S>(context, term, dy.shape.elements() / n, n,
                                    can_pack(pack_width<S>, term.dy),
                                    {elements_of<C>(call.writes[0])});
  });
}

void norm_weight_gradient(CudaContext const& context, KernelCall const& call) {
  bool const centred = attributes_of<NormAttributes>(call).subtracts_mean();
  std::size_t const weights = centred ? 2 : 1;
  expect(call, call.writes.size() == weights, "a gradient is missing or superfluous");
  Operand const& x = call.reads[1];
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    auto const moments = statistics_of<S>(call, x, call.reads[2]);
    expect_tensor(call, call.reads[0], element_type<S>(), x.shape);
    for (std::size_t i = 0; i < weights; ++i) {
      expect_tensor(call, call.writes[i], element_type<C>(), {moments.columns});
    }
    S const* const dy = elements_of<S>(call.reads[0]);
    S const* const input = elements_of<S>(x);
    C* const d_weight = elements_of<C>(call.writes[0]);
    bool const fits = can_pack(pack_width<S>, dy, input);
    if (centred) {
      column_sums::add_column_sums<S>(context, NormTerm<S, 2>{dy, input, moments}, moments.rows,
                                      moments.columns, fits,
                                      {d_weight, elements_of<C>(call.writes[1])});
    } else {
      column_sums::add_column_sums<S>(context, NormTerm<S, 1>{dy, input, moments}, moments.rows,
                                      moments.columns, fits, {d_weight});
    }
  });
}

}  // namespace stagecraft::cuda_ops
