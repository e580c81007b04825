#include "libexec/kernels/cuda/attention/heads_packing.hpp"
#include "libexec/kernels/cuda/attention/rotary_heads.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/operands/head_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// One block per position.
template <typename S, int width>
__global__ void __launch_bounds__(rotary_threads)
    rotate(TurnedHeads<S> const q, TurnedHeads<S> const k, RotaryAngles const angles) {
  using C = Compute<S>;
  std::int64_t const position = blockIdx.x;
  angles.template for_pairs<C>(
      position, [&](unsigned first, unsigned count, C const* cosine, C const* sine) {
        turn_heads<S, width>(q, position, first, count, angles.half, cosine, sine);
        turn_heads<S, width>(k, position, first, count, angles.half, cosine, sine);
      });
}

void rotate_all(CudaContext const& context, KernelCall const& call, double direction) {
  expect_rotary(call);
  Shape const& shape = call.reads[0].shape;
  RotaryAngles const angles{attributes_of<RotaryAttributes>(call).base, direction, shape[3] / 2,
                            shape[0], context.sequence};
  if (shape.elements() == 0) return;
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    auto const turned = [&](std::size_t i) {
      return TurnedHeads<S>{HeadsView<S>{call.reads[i]}, HeadsView<S>{call.writes[i]},
                            call.reads[i].shape[1], call.reads[i].shape[2]};
    };
    bool fits = angles.half % pack_width<S> == 0;
    for (std::size_t i = 0; i < 2; ++i) {
      fits = fits && heads_can_pack<S>(call.reads[i], pack_width<S>) &&
             heads_can_pack<S>(call.writes[i], pack_width<S>);
    }
    auto const kernel = fits ? rotate<S, pack_width<S>> : rotate<S, 1>;
    launch(kernel, static_cast<unsigned>(shape[0]), rotary_threads, context.stream, turned(0),
           turned(1), angles);
  });
}

}  // namespace

void rotary(CudaContext const& context, KernelCall const& call) { rotate_all(context, call, 1); }
void rotary_backward(CudaContext const& context, KernelCall const& call) {
  rotate_all(context, call, -1);
}

}  // namespace stagecraft::cuda_ops
