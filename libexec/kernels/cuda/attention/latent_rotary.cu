#include "libexec/kernels/cuda/attention/heads_packing.hpp"
#include "libexec/kernels/cuda/attention/rotary_heads.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/operands/head_operands.hpp"

/// Latent attention's heads are cut and joined where their rotary parts are turned: what a kernel
/// reads and writes of a token is read and written once.
namespace stagecraft::cuda_ops {
namespace {

/// Columns of every head of a token, copied.
template <typename S>
struct CopiedHeads {
  HeadsView<S> from, to;  ///< at the first column
  std::int64_t columns;
};

template <typename S, int width>
__device__ void copy_heads(CopiedHeads<S> const& all,
                           std::int64_t position,
                           std::int64_t sequences,
                           std::int64_t heads) {
  auto const packs = static_cast<unsigned>(all.columns) / width;
  auto const count = static_cast<unsigned>(heads);
  unsigned const items = static_cast<unsigned>(sequences) * count * packs;
  for (unsigned item = threadIdx.x; item < items; item += rotary_threads) {
    unsigned const column = item % packs * width;
    unsigned const rest = item / packs;
    S const* const from = all.from.head(position, rest / count, rest % count) + column;
    S* const to = all.to.head(position, rest / count, rest % count) + column;
    store_pack(to, load_pack<width>(from));
  }
}

/// What both directions do: copies of what is not turned, and turned heads of queries.
template <typename S>
struct LatentHeads {
  CopiedHeads<S> query, key, value;
  TurnedHeads<S> turned_query;
};

/// The view from column `first` of each head on.
template <typename S>
HeadsView<S> from_column(Operand const& heads, std::int64_t first) {
  HeadsView<S> view{heads};
  view.data += first;
  return view;
}

template <typename S, int width>
__device__ void copy_all(LatentHeads<S> const& all, std::int64_t position) {
  std::int64_t const sequences = all.turned_query.sequences;
  std::int64_t const heads = all.turned_query.heads;
  copy_heads<S, width>(all.query, position, sequences, heads);
  copy_heads<S, width>(all.key, position, sequences, heads);
  copy_heads<S, width>(all.value, position, sequences, heads);
}

/// One block per position. All heads have the key part that they share.
template <typename S, int width>
__global__ void __launch_bounds__(rotary_threads) cut_latents(LatentHeads<S> const all,
                                                              TurnedHeads<S> const shared_key,
                                                              RotaryAngles const angles) {
  using C = Compute<S>;
  std::int64_t const position = blockIdx.x;
  copy_all<S, width>(all, position);
  angles.template for_pairs<C>(
      position, [&](unsigned first, unsigned count, C const* cosine, C const* sine) {
        turn_heads<S, width>(all.turned_query, position, first, count, angles.half, cosine, sine);
        turn_heads<S, width>(shared_key, position, first, count, angles.half, cosine, sine);
      });
}

/// One block per position. The gradient of the shared key part is the sum over heads, in their
/// order.
template <typename S, int width>
__global__ void __launch_bounds__(rotary_threads) join_latents(LatentHeads<S> const all,
                                                               TurnedHeads<S> const shared_key,
                                                               RotaryAngles const angles) {
  using C = Compute<S>;
  std::int64_t const position = blockIdx.x;
  copy_all<S, width>(all, position);
  angles.template for_pairs<C>(
      position, [&](unsigned first, unsigned count, C const* cosine, C const* sine) {
        turn_heads<S, width>(all.turned_query, position, first, count, angles.half, cosine, sine);
        auto const items = static_cast<unsigned>(shared_key.sequences) * count;
        for (unsigned item = threadIdx.x; item < items; item += rotary_threads) {
          unsigned const pair = item % count;
          unsigned const sequence = item / count;
          RotaryPair<C> sum{0, 0};
#pragma unroll 8
          for (std::int64_t head = 0; head < shared_key.heads; ++head) {
            S const* const from = shared_key.from.head(position, sequence, head) + first + pair;
            sum.low += widen(from[0]);
            sum.high += widen(from[angles.half]);
          }
          RotaryPair<C> const out = turned(sum, cosine[pair], sine[pair]);
          S* const to = shared_key.to.head(position, sequence, 0) + first + pair;
          to[0] = narrow<S>(out.low);
          to[angles.half] = narrow<S>(out.high);
        }
      });
}

/// Launches Kernel::of<S, width>(heads, shared key, angles).
/// \param up, by_head  the operands as latent_shape() has them
template <typename S, typename Kernel>
void launch_latent(CudaContext const& context,
                   KernelCall const& call,
                   OperandList const& up,
                   OperandList const& by_head,
                   Kernel const& kernel) {
  LatentShape const shape = latent_shape<S>(call, up, by_head);
  if (shape.s * shape.b * shape.heads == 0) return;
  bool const forward = call.kind == OpKind::latent_rotary;
  auto const copied = [&](std::size_t above, std::int64_t first, std::size_t below,
                          std::int64_t columns) {
    HeadsView<S> const a = from_column<S>(up[above], first);
    HeadsView<S> const b{by_head[below]};
    return CopiedHeads<S>{forward ? a : b, forward ? b : a, columns};
  };
  auto const turned_part = [&](HeadsView<S> const& a, std::size_t below) {
    HeadsView<S> const b = from_column<S>(by_head[below], shape.nope);
    return TurnedHeads<S>{forward ? a : b, forward ? b : a, shape.b, shape.heads};
  };
  HeadsView<S> shared{up[2]};
  shared.head_stride = 0;  // every head has it
  LatentHeads<S> const all{copied(0, 0, 0, shape.nope), copied(1, 0, 1, shape.nope),
                           copied(1, shape.nope, 2, shape.value),
                           turned_part(from_column<S>(up[0], shape.nope), 0)};
  RotaryAngles const angles{attributes_of<RotaryAttributes>(call).base, forward ? 1.0 : -1.0,
                            shape.rope / 2, shape.s, context.sequence};
  constexpr int width = pack_width<S>;
  bool fits = angles.half % width == 0 && shape.nope % width == 0 && shape.value % width == 0;
  for (std::size_t i = 0; i < 3; ++i) {
    fits = fits && heads_can_pack<S>(up[i], width) && heads_can_pack<S>(by_head[i], width);
  }
  launch(fits ? kernel(std::integral_constant<int, width>{})
              : kernel(std::integral_constant<int, 1>{}),
         static_cast<unsigned>(shape.s), rotary_threads, context.stream, all,
         turned_part(shared, 1), angles);
}

}  // namespace

void latent_rotary(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    launch_latent<S>(context, call, call.reads, call.writes,
                     [](auto width) { return cut_latents<S, width>; });
  });
}

void latent_rotary_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    launch_latent<S>(context, call, call.writes, call.reads,
                     [](auto width) { return join_latents<S, width>; });
  });
}

}  // namespace stagecraft::cuda_ops
