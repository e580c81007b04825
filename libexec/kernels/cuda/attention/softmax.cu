#include <limits>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/cuda/row_dropout.cuh"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// No dropout after the softmax.
struct NothingDropped {};

template <typename Dropped>
inline constexpr bool drops = !std::is_same_v<Dropped, NothingDropped>;

/// Probabilities are softmax(scale scores) over the columns of the window that ends on the
/// diagonal, 0 in the others. Scores past the diagonal are not read; they may be in the same place.
/// Dropout reads probabilities as they were rounded, as if it were a second kernel.
template <typename S, int width, int held, typename Dropped>
__global__ void __launch_bounds__(most_row_threads)
    softmax_rows(SoftmaxOperands<S> of, Dropped behind) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  ScoreRows<S> const& all = of.all;
  if (row >= all.rows) return;
  std::int64_t const n = all.end(row);
  std::int64_t const first = n - all.window;
  C values[accesses][width];
  C maximum = -std::numeric_limits<C>::infinity();
  Pack<S, width> loaded[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    loaded[k] = load_pack<width>(of.scores + row * all.s + column);
  });
  for_accesses<width, accesses>(n, [&](int k, int column) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      values[k][i] = widen(loaded[k][i]);
      bool const counts = column + i >= first && column + i < n;
      if (counts) maximum = larger(maximum, values[k][i]);
    }
  });
  maximum = row_maximum(maximum);
  C sum = 0;
  for_accesses<width, accesses>(n, [&](int k, int column) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      bool const counts = column + i >= first && column + i < n;
      values[k][i] = counts ? exponential((values[k][i] - maximum) * all.scale) : C{0};
      sum += values[k][i];
    }
  });
  C const inverse = C{1} / row_sum(sum);
  for_accesses<width, accesses>(all.s, [&](int k, int column) {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(column + i < n ? values[k][i] * inverse : C{0});
    }
    std::int64_t const place = row * all.s + column;
    store_pack(of.probabilities + place, out);
    if constexpr (drops<Dropped>) {
      std::uint32_t const bits = behind.template drawn<width>(row, column);
      store_pack(of.dropped + place, behind.apply(out, bits));
      if (of.mask != nullptr) store_pack(of.mask + place, mask_of_bits<width>(bits));
    }
  });
}

/// d = (d - sum(d y)) y scale over the same columns, in place; 0 in the others. With a dropout
/// after the softmax, d is first the gradient of the dropout's result.
template <typename S, int width, int held, typename Dropped>
__global__ void __launch_bounds__(most_row_threads)
    softmax_backward_rows(SoftmaxOperands<S> of, Dropped behind) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  ScoreRows<S> const& all = of.all;
  if (row >= all.rows) return;
  std::int64_t const n = all.end(row);
  std::int64_t const first = n - all.window;
  Pack<S, width> gradient[accesses];
  Pack<S, width> output[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    std::int64_t const place = row * all.s + column;
    gradient[k] = load_pack<width>(of.scores + place);
    output[k] = load_pack<width>(of.probabilities + place);
    if constexpr (drops<Dropped>) {
      std::uint32_t const bits = of.mask != nullptr
                                     ? behind.given(row, column, load_pack<width>(of.mask + place))
                                     : behind.template drawn<width>(row, column);
      gradient[k] = behind.apply(gradient[k], bits);
    }
  });
  C dot = 0;
  for_accesses<width, accesses>(n, [&](int k, int column) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      bool const counts = column + i >= first && column + i < n;
      if (counts) dot += widen(gradient[k][i]) * widen(output[k][i]);
    }
  });
  dot = row_sum(dot);
  for_accesses<width, accesses>(all.s, [&](int k, int column) {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      bool const counts = column + i >= first && column + i < n;
      out[i] = counts ? narrow<S>((widen(gradient[k][i]) - dot) * widen(output[k][i]) * all.scale)
                      : narrow<S>(C{0});
    }
    store_pack(of.scores + row * all.s + column, out);
  });
}

template <typename S>
RowDropout<S> dropout_of_probabilities(CudaContext const& context, KernelCall const& call) {
  return {dropout_rows(context.tensor_rank, call, call.reads[0]), call.draw,
          DropoutRate<Compute<S>>{dropout_attributes(call).rate}};
}

template <typename S, typename Dropped>
void launch_forward(CudaContext const& context, KernelCall const& call, Dropped const& behind) {
  auto const of = expect_softmax<S>(call);
  if (of.all.rows == 0) return;
  bool const fits = can_pack(pack_width<S>, of.scores, of.probabilities, of.dropped, of.mask);
  with_held_row<S>(call.kind, of.all.s, fits, [&](auto width, auto held) {
    RowLaunch const grid = row_launch(of.all.rows, (of.all.s + held - 1) / held);
    launch(softmax_rows<S, width, held, Dropped>, grid.blocks, grid.threads, context.stream, of,
           behind);
  });
}

template <typename S, typename Dropped>
void launch_backward(CudaContext const& context, KernelCall const& call, Dropped const& behind) {
  auto const of = expect_softmax_backward<S>(call);
  if (of.all.rows == 0) return;
  bool const fits = can_pack(pack_width<S>, of.scores, of.probabilities, of.mask);
  with_held_row<S>(call.kind, of.all.s, fits, [&](auto width, auto held) {
    RowLaunch const grid = row_launch(of.all.rows, (of.all.s + held - 1) / held);
    launch(softmax_backward_rows<S, width, held, Dropped>, grid.blocks, grid.threads,
           context.stream, of, behind);
  });
}

}  // namespace

void causal_softmax(CudaContext const& context, KernelCall const& call) {
  with_storage_type(
      call, [&](auto tag) { launch_forward<decltype(tag)>(context, call, NothingDropped{}); });
}

void causal_softmax_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(
      call, [&](auto tag) { launch_backward<decltype(tag)>(context, call, NothingDropped{}); });
}

void causal_softmax_dropout(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    launch_forward<S>(context, call, dropout_of_probabilities<S>(context, call));
  });
}

void causal_softmax_dropout_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    launch_backward<S>(context, call, dropout_of_probabilities<S>(context, call));
  });
}

}  // namespace stagecraft::cuda_ops
