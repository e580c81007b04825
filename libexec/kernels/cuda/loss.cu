#include <algorithm>
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
__global__ void __launch_bounds__(most_row_threads) maximum_of_rows(MaximumOperands<C> of) {
  std::int64_t const row = this_row();
  LogitRows const& all = of.all;
  C const* const x = of.logits + row * all.words;
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
  if (threadIdx.x == 0) of.maximum[row] = largest;
}

template <typename C, int width>
__global__ void __launch_bounds__(most_row_threads)
    exponentials_of_rows(ExponentialsOperands<C> of) {
  std::int64_t const row = this_row();
  LogitRows const& all = of.all;
  C* const x = of.logits + row * all.words;
  C const maximum = of.maximum[row];
  std::int64_t const label = all.column_of(of.labels[row]);
  if (label < 0 && threadIdx.x == 0) of.label_logit[row] = 0;
  C sum = 0;
  stream_row<width>(
      all.words, [&](std::int64_t column) { return load_pack<width>(x + column); },
      [&](std::int64_t column, Pack<C, width> const& values) {
        Pack<C, width> out;
#pragma unroll
        for (int i = 0; i < width; ++i) {
          C const shifted = values[i] - maximum;
          if (column + i == label) of.label_logit[row] = shifted;
          out[i] = column + i < all.valid ? exponential(shifted) : C{0};
          sum += out[i];
        }
        store_pack(x + column, out);
      });
  sum = row_sum(sum);
  if (threadIdx.x == 0) of.sum[row] = sum;
}

/// softmax = exponentials / their sum, in place, and the loss of each row.
template <typename C>
struct CrossEntropy {
  static constexpr int in_flight = 4;
  CrossEntropyOperands<C> of;

  template <int width>
  struct Loaded {
    Pack<C, width> values;
    C sum;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.softmax + at.element), of.sum[at.row]};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    C const inverse = C{1} / in.sum;
    Pack<C, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = in.values[i] * inverse;
    store_pack(of.softmax + at.element, out);
    if (at.column == 0) of.loss[at.row] = std::log(in.sum) - of.label_logit[at.row];
  }
};

/// d logits = (softmax - [column is the label]) factor, in place.
template <typename C>
struct CrossEntropyBackward {
  static constexpr int in_flight = 4;
  CrossEntropyBackwardOperands<C> of;

  template <int width>
  struct Loaded {
    Pack<C, width> values;
    std::int64_t label;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.softmax + at.element), __ldg(of.labels + at.row)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    std::int64_t const label = of.all.column_of(in.label);
    Pack<C, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = (at.column + i == label ? in.values[i] - C{1} : in.values[i]) * of.factor;
    }
    store_pack(of.softmax + at.element, out);
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

/// One block per row, with as many threads as the row can keep busy. `packed` and `single`: the
/// kernel, by the width of its accesses.
template <typename C, typename Of>
void launch_long_rows(CudaContext const& context,
                      LogitRows const& all,
                      C const* logits,
                      void (*packed)(Of),
                      void (*single)(Of),
                      Of const& of) {
  if (all.rows == 0) return;
  bool const fits = all.words % pack_width<C> == 0 && can_pack(pack_width<C>, logits);
  std::int64_t const at_once = in_flight * (fits ? pack_width<C> : 1);
  RowLaunch const grid =
      row_launch(all.rows, std::clamp<std::int64_t>((all.words + at_once - 1) / at_once,
                                                    2 * warp_threads, most_row_threads));
  launch(fits ? packed : single, grid.blocks, grid.threads, context.stream, of);
}

template <typename C, typename Body>
void launch_for_logits(CudaContext const& context, Body const& body) {
  constexpr int width = pack_width<C>;
  launch_element_wise<width>(context.stream, extent_of(body.of.all.rows, body.of.all.words),
                             can_pack(width, body.of.softmax), body);
}

void convert_logits(CudaContext const& context, KernelCall const& call) {
  with_converted_logits(
      call, [&]<typename From, typename To>(From const* from, To* to, std::int64_t n) {
        constexpr int width = std::min(pack_width<From>, pack_width<To>);
        launch_element_wise<width>(context.stream, flat_extent(n), can_pack(width, from, to),
                                   Convert<From, To>{from, to});
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
  with_logit_type(call, call.reads[0].type, [&](auto tag) {
    using C = decltype(tag);
    auto const of = expect_logits_maximum<C>(context.tensor_rank, call);
    launch_long_rows<C>(context, of.all, of.logits, maximum_of_rows<C, pack_width<C>>,
                        maximum_of_rows<C, 1>, of);
  });
}

void exponentials(CudaContext const& context, KernelCall const& call) {
  with_logit_type(call, call.reads[0].type, [&](auto tag) {
    using C = decltype(tag);
    auto const of = expect_exponentials<C>(context.tensor_rank, call);
    launch_long_rows<C>(context, of.all, of.logits, exponentials_of_rows<C, pack_width<C>>,
                        exponentials_of_rows<C, 1>, of);
  });
}

void cross_entropy(CudaContext const& context, KernelCall const& call) {
  with_logit_type(call, call.reads[0].type, [&](auto tag) {
    using C = decltype(tag);
    launch_for_logits<C>(context,
                         CrossEntropy<C>{expect_cross_entropy<C>(context.tensor_rank, call)});
  });
}

void cross_entropy_backward(CudaContext const& context, KernelCall const& call) {
  with_logit_type(call, call.reads[0].type, [&](auto tag) {
    using C = decltype(tag);
    launch_for_logits<C>(context, CrossEntropyBackward<C>{
                                      expect_cross_entropy_backward<C>(context.tensor_rank, call)});
  });
}

}  // namespace stagecraft::cuda_ops
