#include <algorithm>
#include <cmath>
#include <limits>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/cuda/row_block.cuh"
#include "libexec/kernels/operands/step_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// x *= factor, in place; notes in `overflow`, where there is one, that a result is not finite.
template <typename C>
struct Scale {
  static constexpr int in_flight = 4;
  C* x;
  C factor;
  int* overflow;  ///< or null; all that write it write 1

  template <int width>
  struct Loaded {
    Pack<C, width> x;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(x + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<C, width> out;
    bool finite = true;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = in.x[i] * factor;
      // A NaN fails the comparison.
      finite = finite && std::abs(out[i]) <= std::numeric_limits<C>::max();
    }
    store_pack(x + at.element, out);
    if (overflow != nullptr && !finite) *overflow = 1;
  }
};

template <typename C>
struct Adam {
  static constexpr int in_flight = 2;
  C* parameters;
  C* first;
  C* second;
  C const* gradient;
  AdamStep<C> step;

  template <int width>
  struct Loaded {
    Pack<C, width> parameters, first, second, gradient;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(parameters + at.element), load_pack<width>(first + at.element),
            load_pack<width>(second + at.element), load_pack<width>(gradient + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Loaded<width> out = in;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      step.update(out.parameters[i], out.first[i], out.second[i], in.gradient[i]);
    }
    store_pack(parameters + at.element, out.parameters);
    store_pack(first + at.element, out.first);
    store_pack(second + at.element, out.second);
  }
};

/// The 16-bit parameters that Adam gives; its state stays as it is.
template <typename S>
struct AdamAhead {
  static constexpr int in_flight = 2;
  float const* master;
  float const* first;
  float const* second;
  float const* gradient;
  S* parameters;
  AdamStep<float> step;

  template <int width>
  struct Loaded {
    Pack<float, width> master, first, second, gradient;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(master + at.element), load_pack<width>(first + at.element),
            load_pack<width>(second + at.element), load_pack<width>(gradient + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Loaded<width> updated = in;
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      step.update(updated.master[i], updated.first[i], updated.second[i], in.gradient[i]);
      out[i] = narrow<S>(updated.master[i]);
    }
    store_pack(parameters + at.element, out);
  }
};

template <typename S>
struct Narrow {
  static constexpr int in_flight = 4;
  float const* master;
  S* parameters;

  template <int width>
  struct Loaded {
    Pack<float, width> master;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(master + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<S>(in.master[i]);
    store_pack(parameters + at.element, out);
  }
};

constexpr unsigned sum_threads = 256;
constexpr std::int64_t most_sums = 1024;
/// Consecutive elements that a thread adds at a time: in one access where they are aligned, in the
/// same order where they are not.
constexpr int sum_width = 4;

/// sums[block] = sum of squares of every gridDim.x-th tile of elements, in double.
template <typename C, bool fits>
__global__ void __launch_bounds__(sum_threads)
    sum_tiles(C const* x, std::int64_t elements, double* sums) {
  double sum = 0;
  std::int64_t const step = std::int64_t{gridDim.x} * sum_threads * sum_width;
#pragma unroll 4
  for (std::int64_t first = (std::int64_t{blockIdx.x} * sum_threads + threadIdx.x) * sum_width;
       first < elements; first += step) {
    Pack<C, sum_width> values{};
    if (fits && first + sum_width <= elements) {
      values = load_pack<sum_width>(x + first);
    } else {
      for (int i = 0; i < sum_width; ++i) values[i] = first + i < elements ? x[first + i] : C{0};
    }
#pragma unroll
    for (int i = 0; i < sum_width; ++i) {
      auto const value = static_cast<double>(values[i]);
      sum += value * value;
    }
  }
  sum = row_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// total = sum of the tiles' sums.
__global__ void __launch_bounds__(sum_threads)
    sum_sums(double const* sums, int count, double* total) {
  double sum = 0;
  for (auto i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(sum_threads)) {
    sum += sums[i];
  }
  sum = row_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

/// What a kernel left at `device`, once it is there.
template <typename T>
T result_at(CudaContext const& context, T const* device) {
  T result{};
  check(cudaMemcpyAsync(&result, device, sizeof(T), cudaMemcpyDeviceToHost, context.stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(context.stream), "cudaStreamSynchronize");
  return result;
}

void scale_by(CudaContext const& context, KernelCall const& call, double factor, int* overflow) {
  Operand const& range = call.writes[0];
  with_wide_type(call, range, [&](auto tag) {
    using C = decltype(tag);
    Scale<C> const body{elements_of<C>(range), static_cast<C>(factor), overflow};
    constexpr int width = pack_width<C>;
    launch_element_wise<width>(context.stream, flat_extent(range.shape.elements()),
                               can_pack(width, body.x), body);
  });
}

}  // namespace

void zero_gradients(CudaContext const& context, KernelCall const& call) {
  Operand const& range = call.writes[0];
  auto const bytes = static_cast<std::size_t>(range.shape.elements() * element_size(range.type));
  if (bytes == 0) return;
  check(cudaMemsetAsync(range.data, 0, bytes, context.stream), "cudaMemsetAsync");
}

void scale_gradients(CudaContext const& context, KernelCall const& call) {
  scale_by(context, call, attributes_of<ScaleAttributes>(call).factor, nullptr);
}

void unscale_gradients(CudaContext const& context, KernelCall const& call) {
  int* const overflow = context.scratch_of<int>();
  check(cudaMemsetAsync(overflow, 0, sizeof(int), context.stream), "cudaMemsetAsync");
  scale_by(context, call, unscaling_factor(call), overflow);
  if (result_at(context, overflow) != 0) note_overflow(call);
}

void gradient_norm(CudaContext const& context, KernelCall const& call) {
  Operand const& range = call.reads[0];
  std::int64_t const elements = range.shape.elements();
  auto* const total = context.scratch_of<double>();
  double* const sums = total + 1;
  with_wide_type(call, range, [&](auto tag) {
    using C = decltype(tag);
    auto const* const x = elements_of<C const>(range);
    constexpr std::int64_t tile = std::int64_t{sum_threads} * sum_width;
    std::int64_t const tiles = (elements + tile - 1) / tile;
    std::int64_t const blocks = std::clamp<std::int64_t>(tiles, 1, most_sums);
    launch(can_pack(sum_width, x) ? sum_tiles<C, true> : sum_tiles<C, false>,
           static_cast<unsigned>(blocks), sum_threads, context.stream, x, elements, sums);
    launch(sum_sums, 1U, sum_threads, context.stream, sums, static_cast<int>(blocks), total);
  });
  add_squares(call, result_at(context, total));
}

void clip_gradients(CudaContext const& context, KernelCall const& call) {
  double const factor = clip_factor(call);
  if (factor != 1) scale_by(context, call, factor, nullptr);
}

void adam(CudaContext const& context, KernelCall const& call) {
  expect_adam(call);
  if (is_skipped(call)) return;
  with_wide_type(call, call.writes[0], [&](auto tag) {
    using C = decltype(tag);
    Adam<C> const body{elements_of<C>(call.writes[0]), elements_of<C>(call.writes[1]),
                       elements_of<C>(call.writes[2]), elements_of<C const>(call.reads[3]),
                       AdamStep<C>{call}};
    constexpr int width = pack_width<C>;
    launch_element_wise<width>(
        context.stream, flat_extent(call.writes[0].shape.elements()),
        can_pack(width, body.parameters, body.first, body.second, body.gradient), body);
  });
}

void adam_ahead(CudaContext const& context, KernelCall const& call) {
  expect_ahead(call);
  if (!steps_ahead(call)) return;
  with_storage_type(call.kind, call.writes[0].type, [&](auto tag) {
    using S = decltype(tag);
    if constexpr (is_narrow<S>) {
      AdamAhead<S> const body{
          elements_of<float const>(call.reads[0]), elements_of<float const>(call.reads[1]),
          elements_of<float const>(call.reads[2]), elements_of<float const>(call.reads[3]),
          elements_of<S>(call.writes[0]),          AdamStep<float>{call}};
      constexpr int width = pack_width<float>;
      launch_element_wise<width>(
          context.stream, flat_extent(call.reads[0].shape.elements()),
          can_pack(width, body.master, body.first, body.second, body.gradient, body.parameters),
          body);
    }
  });
}

void narrow_parameters(CudaContext const& context, KernelCall const& call) {
  expect_narrowing(call);
  if (is_skipped(call)) return;
  with_storage_type(call.kind, call.writes[0].type, [&](auto tag) {
    using S = decltype(tag);
    if constexpr (is_narrow<S>) {
      Narrow<S> const body{elements_of<float const>(call.reads[0]), elements_of<S>(call.writes[0])};
      constexpr int width = pack_width<float>;
      launch_element_wise<width>(context.stream, flat_extent(call.reads[0].shape.elements()),
                                 can_pack(width, body.master, body.parameters), body);
    }
  });
}

}  // namespace stagecraft::cuda_ops
