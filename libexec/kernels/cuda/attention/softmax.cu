#include <limits>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/cuda/row_dropout.cuh"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// The rows of attention scores [b, heads, s, s].
template <typename S>
struct ScoreRows {
  std::int64_t rows;
  std::int64_t s;
  std::int64_t window;  ///< columns up to the diagonal that count; s: all of them
  Compute<S> scale;

  /// One behind the last column that counts, the diagonal.
  __device__ std::int64_t end(std::int64_t row) const { return row % s + 1; }
};

/// No dropout after the softmax.
struct NothingDropped {};

/// Dropout after the softmax: `y`, and the mask that is drawn, if wanted. Backward reads a mask
/// that is given, or draws it again.
template <typename S>
struct DroppedRows {
  RowDropout<S> dropped;
  S* y;                       ///< forward
  std::uint8_t* stored;       ///< forward; or null
  std::uint8_t const* given;  ///< backward; or null
};

template <typename Dropped>
inline constexpr bool drops = !std::is_same_v<Dropped, NothingDropped>;

/// y = softmax(scale x) over the columns of the window that ends on the diagonal; 0 in the others.
/// Columns behind the diagonal are not read.
/// x and y may be the same. Dropout reads y as it was rounded, as if it were a second kernel.
template <typename S, int width, int held, typename Dropped>
__global__ void __launch_bounds__(most_row_threads)
    softmax_rows(S const* x, S* y, ScoreRows<S> all, Dropped behind) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  if (row >= all.rows) return;
  std::int64_t const n = all.end(row);
  std::int64_t const first = n - all.window;
  C values[accesses][width];
  C maximum = -std::numeric_limits<C>::infinity();
  Pack<S, width> loaded[accesses];
  for_accesses<width, accesses>(
      n, [&](int k, int column) { loaded[k] = load_pack<width>(x + row * all.s + column); });
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
    store_pack(y + place, out);
    if constexpr (drops<Dropped>) {
      std::uint32_t const bits = behind.dropped.template drawn<width>(row, column);
      store_pack(behind.y + place, behind.dropped.apply(out, bits));
      if (behind.stored != nullptr) store_pack(behind.stored + place, mask_of_bits<width>(bits));
    }
  });
}

/// d = (d - sum(d y)) y scale over the same columns, in place; 0 in the others. With a dropout
/// after the softmax, d is first the gradient of the dropout's result.
template <typename S, int width, int held, typename Dropped>
__global__ void __launch_bounds__(most_row_threads)
    softmax_backward_rows(S* d, S const* y, ScoreRows<S> all, Dropped behind) {
  using C = Compute<S>;
  constexpr int accesses = held / width;
  std::int64_t const row = this_row();
  if (row >= all.rows) return;
  std::int64_t const n = all.end(row);
  std::int64_t const first = n - all.window;
  Pack<S, width> gradient[accesses];
  Pack<S, width> output[accesses];
  for_accesses<width, accesses>(n, [&](int k, int column) {
    std::int64_t const place = row * all.s + column;
    gradient[k] = load_pack<width>(d + place);
    output[k] = load_pack<width>(y + place);
    if constexpr (drops<Dropped>) {
      RowDropout<S> const& dropped = behind.dropped;
      std::uint32_t const bits =
          behind.given != nullptr
              ? dropped.given(row, column, load_pack<width>(behind.given + place))
              : dropped.template drawn<width>(row, column);
      gradient[k] = dropped.apply(gradient[k], bits);
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
    store_pack(d + row * all.s + column, out);
  });
}

/// Expects scores. Returns the description of their rows for a launch.
template <typename S>
ScoreRows<S> score_rows(KernelCall const& call, Operand const& scores) {
  std::int64_t const s = expect_scores<S>(call, scores);
  std::int64_t const window = attributes_of<SoftmaxAttributes>(call).window;
  return {scores.shape.elements() / s, s, window == 0 ? s : window, score_scale<S>(call)};
}

template <typename S>
RowDropout<S> dropout_of_probabilities(CudaContext const& context, KernelCall const& call) {
  return {dropout_rows(context.tensor_rank, call, call.reads[0]), call.draw,
          DropoutRate<Compute<S>>{dropout_attributes(call).rate}};
}

/// `fits`: whether rows are aligned for packs.
template <typename S, typename Dropped>
void launch_forward(CudaContext const& context,
                    KernelCall const& call,
                    ScoreRows<S> const& all,
                    bool fits,
                    Dropped const& behind) {
  if (all.rows == 0) return;
  with_held_row<S>(call.kind, all.s, fits, [&](auto width, auto held) {
    RowLaunch const grid = row_launch(all.rows, (all.s + held - 1) / held);
    launch(softmax_rows<S, width, held, Dropped>, grid.blocks, grid.threads, context.stream,
           elements_of<S>(call.reads[0]), elements_of<S>(call.writes[0]), all, behind);
  });
}

template <typename S, typename Dropped>
void launch_backward(CudaContext const& context,
                     KernelCall const& call,
                     ScoreRows<S> const& all,
                     bool fits,
                     Dropped const& behind) {
  if (all.rows == 0) return;
  with_held_row<S>(call.kind, all.s, fits, [&](auto width, auto held) {
    RowLaunch const grid = row_launch(all.rows, (all.s + held - 1) / held);
    launch(softmax_backward_rows<S, width, held, Dropped>, grid.blocks, grid.threads,
           context.stream, elements_of<S>(call.writes[0]), elements_of<S>(call.reads[1]), all,
           behind);
  });
}

}  // namespace

void causal_softmax(CudaContext const& context, KernelCall const& call) {
  Operand const& scores = call.reads[0];
  with_storage_type(call.kind, scores.type, [&](auto tag) {
    using S = decltype(tag);
    auto const all = score_rows<S>(call, scores);
    expect_tensor(call, call.writes[0], element_type<S>(), scores.shape);
    bool const fits =
        can_pack(pack_width<S>, elements_of<S>(scores), elements_of<S>(call.writes[0]));
    launch_forward<S>(context, call, all, fits, NothingDropped{});
  });
}

void causal_softmax_backward(CudaContext const& context, KernelCall const& call) {
  Operand const& gradient = call.writes[0];
  with_storage_type(call.kind, gradient.type, [&](auto tag) {
    using S = decltype(tag);
    auto const all = score_rows<S>(call, gradient);
    expect_tensor(call, call.reads[1], element_type<S>(), gradient.shape);
    bool const fits =
        can_pack(pack_width<S>, elements_of<S>(gradient), elements_of<S>(call.reads[1]));
    launch_backward<S>(context, call, all, fits, NothingDropped{});
  });
}

void causal_softmax_dropout(CudaContext const& context, KernelCall const& call) {
  Operand const& scores = call.reads[0];
  with_storage_type(call.kind, scores.type, [&](auto tag) {
    using S = decltype(tag);
    auto const all = score_rows<S>(call, scores);
    expect_tensor(call, call.writes[1], element_type<S>(), scores.shape);
    DroppedRows<S> const behind{dropout_of_probabilities<S>(context, call),
                                elements_of<S>(call.writes[1]),
                                dropout_mask(call, call.writes, 2, scores.shape), nullptr};
    bool const fits = can_pack(pack_width<S>, elements_of<S>(scores), behind.y, behind.stored);
    launch_forward<S>(context, call, all, fits, behind);
  });
}

void causal_softmax_dropout_backward(CudaContext const& context, KernelCall const& call) {
  Operand const& gradient = call.writes[0];
  with_storage_type(call.kind, gradient.type, [&](auto tag) {
    using S = decltype(tag);
    auto const all = score_rows<S>(call, gradient);
    expect_tensor(call, call.reads[1], element_type<S>(), gradient.shape);
    DroppedRows<S> const behind{dropout_of_probabilities<S>(context, call), nullptr, nullptr,
                                dropout_mask(call, call.reads, 2, gradient.shape)};
    bool const fits = can_pack(pack_width<S>, elements_of<S>(gradient),
                               elements_of<S>(call.reads[1]), behind.given);
    launch_backward<S>(context, call, all, fits, behind);
  });
}

}  // namespace stagecraft::cuda_ops
