#include <cmath>
#include <limits>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/operands/vocabulary_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// The accesses of a thread that are in flight at once. Rows of a vocabulary are too long to keep.
constexpr int in_flight = 4;

/// Calls finish(column, value) for every access of a row up to column n, with
/// value = load(column).
template <int width, typename Load, typename Finish>
__device__ void stream_row(std::int64_t n, Load const& load, Finish const& finish) {
  std::int64_t const step = std::int64_t{blockDim.x} * width;
  for (std::int64_t first = std::int64_t{threadIdx.x} * width; first < n;
       first += in_flight * step) {
    decltype(load(first)) values[in_flight];
#pragma unroll
    for (int k = 0; k < in_flight; ++k) {
      if (first + k * step < n) values[k] = load(first + k * step);
    }
#pragma unroll
    for (int k = 0; k < in_flight; ++k) {
      if (first + k * step < n) finish(first + k * step, values[k]);
    }
  }
}

template <typename C, int width>
__global__ void __launch_bounds__(most_row_threads)
    maximum_of_rows(C const* logits, C* maximum, LogitRows all) {
  std::int64_t const row = this_row();
  C const* const x = logits + row * all.words;
  C largest = -std::numeric_limits<C>::infinity();
  stream_row<width>(
      all.valid, [&](std::int64_t column) { return load_pack<width>(x + column); },
      [&](std::int64_t column, Pack<C, width> const& values) {
#pragma unroll
        for (int i = 0; i < width; ++i) {
          if (column + i < all.valid) largest = larger(largest, values[i]);
        }
      });
  largest = row_maximum(largest);
  if (threadIdx.x == 0) maximum[row] = largest;
}

/// Operands of exponentials().
template <typename C>
struct Exponentials {
  C* logits;
  C const* maximum;
  std::int64_t const* labels;
  C* sum;
  C* label_logit;
};

template <typename C, int width>
__global__ void __launch_bounds__(most_row_threads)
    exponentials_of_rows(Exponentials<C> operands, LogitRows all) {
  std::int64_t const row = this_row();
  C* const x = operands.logits + row * all.words;
  C const maximum = operands.maximum[row];
  std::int64_t const label = all.column_of(operands.labels[row]);
  if (label < 0 && threadIdx.x == 0) operands.label_logit[row] = 0;
  C sum = 0;
  stream_row<width>(
      all.words, [&](std::int64_t column) { return load_pack<width>(x + column); },
      [&](std::int64_t column, Pack<C, width> const& values) {
        Pack<C, width> out;
#pragma unroll
        for (int i = 0; i < width; ++i) {
          C const shifted = values[i] - maximum;
          if (column + i == label) operands.label_logit[row] = shifted;
          out[i] = column + i < all.valid ? exponential(shifted) : C{0};
          sum += out[i];
        }
        store_pack(x + column, out);
      });
  sum = row_sum(sum);
  if (threadIdx.x == 0) operands.sum[row] = sum;
}

/// softmax = exponentials / their sum, in place, and the loss of each row.
template <typename C>
struct CrossEntropy {
  static constexpr int in_flight = 4;
  C* softmax;
  C const* sum;
  C const* label_logit;
  C* loss;

  template <int width>
  struct Loaded {
    Pack<C, width> values;
    C sum;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(softmax + at.element), sum[at.row]};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    C const inverse = C{1} / in.sum;
    Pack<C, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = in.values[i] * inverse;
    store_pack(softmax + at.element, out);
    if (at.column == 0) loss[at.row] = std::log(in.sum) - label_logit[at.row];
  }
};

/// d logits = (softmax - [column is the label]) factor, in place.
template <typename C>
struct CrossEntropyBackward {
  static constexpr int in_flight = 4;
  C* softmax;
  std::int64_t const* labels;
  LogitRows all;
  C factor;

  template <int width>
  struct Loaded {
    Pack<C, width> values;
    std::int64_t label;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(softmax + at.element), __ldg(labels + at.row)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    std::int64_t const label = all.column_of(in.label);
    Pack<C, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = (at.column + i == label ? in.values[i] - C{1} : in.values[i]) * factor;
    }
    store_pack(softmax + at.element, out);
  }
};

/// A copy in another type.
template <typename From, typename To>
struct Convert {
  static constexpr int in_flight = 4;
  From const* from;
  To* to;

  template <int width>
  struct Loaded {
    Pack<From, width> values;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(from + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<To, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<To>(static_cast<Compute<To>>(widen(in.values[i])));
    }
    store_pack(to + at.element, out);
  }
};

template <typename From, typename To>
void convert(CudaContext const& context, Operand const& from, Operand const& to) {
  Convert<From, To> const body{elements_of<From>(from), elements_of<To>(to)};
  constexpr int width = pack_width<From> < pack_width<To> ? pack_width<From> : pack_width<To>;
  launch_element_wise<width>(context.stream, flat_extent(from.shape.elements()),
                             can_pack(width, body.from, body.to), body);
}

/// One block per row, with as many threads as the row can keep busy.
RowLaunch long_rows(LogitRows const& all, int width) {
  std::int64_t const threads = (all.words + in_flight * width - 1) / (in_flight * width);
  return row_launch(all.rows,
                    std::clamp<std::int64_t>(threads, 2 * warp_threads, most_row_threads));
}

void convert_logits(CudaContext const& context, KernelCall const& call) {
  Operand const& from = call.reads[0];
  Operand const& to = call.writes[0];
  bool const widens = call.kind == OpKind::widen_logits;
  expect_tensor(call, widens ? to : from, ElementType::f32, from.shape);
  with_storage_type(call.kind, widens ? from.type : to.type, [&](auto tag) {
    using S = decltype(tag);
    expect_tensor(call, widens ? from : to, element_type<S>(), from.shape);
    if (widens) {
      convert<S, float>(context, from, to);
    } else {
      convert<float, S>(context, from, to);
    }
  });
}

}  // namespace

void widen_logits(CudaContext const& context, KernelCall const& call) {
  convert_logits(context, call);
}

void narrow_logits(CudaContext const& context, KernelCall const& call) {
  convert_logits(context, call);
}

void logits_maximum(CudaContext const& context, KernelCall const& call) {
  Operand const& logits = call.reads[0];
  LogitRows const all = expect_logits(context.tensor_rank, call, logits);
  expect_tokens(call, call.writes[0], logits.type, logits);
  if (all.rows == 0) return;
  with_logit_type(call, logits.type, [&](auto tag) {
    using C = decltype(tag);
    C const* const x = elements_of<C>(logits);
    constexpr int width = pack_width<C>;
    bool const fits = all.words % width == 0 && can_pack(width, x);
    RowLaunch const grid = long_rows(all, fits ? width : 1);
    launch(fits ? maximum_of_rows<C, width> : maximum_of_rows<C, 1>, grid.blocks, grid.threads,
           context.stream, x, elements_of<C>(call.writes[0]), all);
  });
}

void exponentials(CudaContext const& context, KernelCall const& call) {
  Operand const& logits = call.writes[0];
  with_logit_type(call, logits.type, [&](auto tag) {
    using C = decltype(tag);
    LogitRows const all = expect_logits(context.tensor_rank, call, logits);
    expect_tokens(call, call.reads[1], logits.type, logits);
    expect_tokens(call, call.reads[2], ElementType::i64, logits);
    expect_tokens(call, call.writes[1], logits.type, logits);
    expect_tokens(call, call.writes[2], logits.type, logits);
    Exponentials<C> const operands{elements_of<C>(logits), elements_of<C>(call.reads[1]),
                                   elements_of<std::int64_t>(call.reads[2]),
                                   elements_of<C>(call.writes[1]), elements_of<C>(call.writes[2])};
    if (all.rows == 0) return;
    constexpr int width = pack_width<C>;
    bool const fits = all.words % width == 0 && can_pack(width, operands.logits);
    RowLaunch const grid = long_rows(all, fits ? width : 1);
    launch(fits ? exponentials_of_rows<C, width> : exponentials_of_rows<C, 1>, grid.blocks,
           grid.threads, context.stream, operands, all);
  });
}

void cross_entropy(CudaContext const& context, KernelCall const& call) {
  Operand const& softmax = call.writes[0];
  with_logit_type(call, softmax.type, [&](auto tag) {
    using C = decltype(tag);
    LogitRows const all = expect_logits(context.tensor_rank, call, softmax);
    expect_tokens(call, call.reads[1], softmax.type, softmax);
    expect_tokens(call, call.reads[2], softmax.type, softmax);
    expect_tokens(call, call.reads[3], ElementType::i64, softmax);
    expect_tokens(call, call.writes[1], softmax.type, softmax);
    CrossEntropy<C> const body{elements_of<C>(softmax), elements_of<C>(call.reads[1]),
                               elements_of<C>(call.reads[2]), elements_of<C>(call.writes[1])};
    constexpr int width = pack_width<C>;
    launch_element_wise<width>(context.stream, extent_of(all.rows, all.words),
                               can_pack(width, body.softmax), body);
  });
}

void cross_entropy_backward(CudaContext const& context, KernelCall const& call) {
  Operand const& softmax = call.writes[0];
  with_logit_type(call, softmax.type, [&](auto tag) {
    using C = decltype(tag);
    LogitRows const all = expect_logits(context.tensor_rank, call, softmax);
    expect_tokens(call, call.reads[1], ElementType::i64, softmax);
    CrossEntropyBackward<C> const body{elements_of<C>(softmax),
                                       elements_of<std::int64_t>(call.reads[1]), all,
                                       static_cast<C>(call.loss_gradient)};
    constexpr int width = pack_width<C>;
    launch_element_wise<width>(context.stream, extent_of(all.rows, all.words),
                               can_pack(width, body.softmax), body);
  });
}

}  // namespace stagecraft::cuda_ops
