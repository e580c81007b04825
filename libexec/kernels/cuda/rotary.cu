#include <cmath>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/heads_packing.hpp"
#include "libexec/kernels/cuda/launch.cuh"
#include "libexec/kernels/cuda/pack.cuh"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/head_operands.hpp"
#include "libexec/kernels/heads_view.hpp"

namespace stagecraft::cuda_ops {
namespace {

constexpr int threads = 256;
/// The number of pairs (i, i + d/2) of a head whose sines are kept at a time.
constexpr int most_pairs = 128;

/// Heads of every token, before and after.
template <typename S>
struct Turned {
  HeadsView<S> from, to;
  std::int64_t sequences, heads;
};

/// Rotates `count` pairs from `first` on of every head at one position.
template <typename S, int width>
__device__ void turn_heads(Turned<S> const& all,
                           std::int64_t position,
                           unsigned first,
                           unsigned count,
                           std::int64_t half,
                           Compute<S> const* cosine,
                           Compute<S> const* sine) {
  using C = Compute<S>;
  unsigned const packs = count / width;
  auto const items = static_cast<unsigned>(all.sequences * all.heads) * packs;
  for (unsigned item = threadIdx.x; item < items; item += threads) {
    unsigned const pair = item % packs * width;
    unsigned const rest = item / packs;
    auto const heads = static_cast<unsigned>(all.heads);
    S const* const x = all.from.head(position, rest / heads, rest % heads) + first + pair;
    S* const y = all.to.head(position, rest / heads, rest % heads) + first + pair;
    Pack<S, width> const low = load_pack<width>(x);
    Pack<S, width> const high = load_pack<width>(x + half);
    Pack<S, width> new_low;
    Pack<S, width> new_high;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const a = widen(low[i]);
      C const b = widen(high[i]);
      new_low[i] = narrow<S>(a * cosine[pair + i] - b * sine[pair + i]);
      new_high[i] = narrow<S>(b * cosine[pair + i] + a * sine[pair + i]);
    }
    store_pack(y, new_low);
    store_pack(y + half, new_high);
  }
}

/// One block per position: sine and cosine are computed once for all heads of q and k.
template <typename S, int width>
__global__ void __launch_bounds__(threads)
    rotate(Turned<S> const q, Turned<S> const k, std::int64_t half, double base, double direction) {
  using C = Compute<S>;
  __shared__ C cosine[most_pairs];
  __shared__ C sine[most_pairs];
  std::int64_t const position = blockIdx.x;
  for (std::int64_t first = 0; first < half; first += most_pairs) {
    auto const count = static_cast<unsigned>(half - first < most_pairs ? half - first : most_pairs);
    __syncthreads();
    if (threadIdx.x < count) {
      double const angle =
          static_cast<double>(position) * rotary_frequency(base, first + threadIdx.x, 2 * half);
      cosine[threadIdx.x] = static_cast<C>(::cos(angle));
      sine[threadIdx.x] = static_cast<C>(direction * ::sin(angle));
    }
    __syncthreads();
    turn_heads<S, width>(q, position, static_cast<unsigned>(first), count, half, cosine, sine);
    turn_heads<S, width>(k, position, static_cast<unsigned>(first), count, half, cosine, sine);
  }
}

void rotate_all(CudaContext const& context, KernelCall const& call, double direction) {
  expect_rotary(call);
  Shape const& shape = call.reads[0].shape;
  std::int64_t const half = shape[3] / 2;
  if (call.reads[0].shape.elements() == 0) return;
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    auto const turned = [&](std::size_t i) {
      return Turned<S>{HeadsView<S>{call.reads[i]}, HeadsView<S>{call.writes[i]},
                       call.reads[i].shape[1], call.reads[i].shape[2]};
    };
    bool fits = half % pack_width<S> == 0;
    for (std::size_t i = 0; i < 2; ++i) {
      fits = fits && heads_can_pack<S>(call.reads[i], pack_width<S>) &&
             heads_can_pack<S>(call.writes[i], pack_width<S>);
    }
    auto const kernel = fits ? rotate<S, pack_width<S>> : rotate<S, 1>;
    launch(kernel, static_cast<unsigned>(shape[0]), threads, context.stream, turned(0), turned(1),
           half, attributes_of<RotaryAttributes>(call).base, direction);
  });
}

}  // namespace

void rotary(CudaContext const& context, KernelCall const& call) { rotate_all(context, call, 1); }
void rotary_backward(CudaContext const& context, KernelCall const& call) {
  rotate_all(context, call, -1);
}

}  // namespace stagecraft::cuda_ops
