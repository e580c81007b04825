#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/cuda/row_dropout.cuh"

namespace stagecraft::cuda_ops {
namespace {

/// y = mask x / (1 - rate), the mask given, or drawn and, if wanted, stored.
template <typename S, bool is_given>
struct Dropout {
  static constexpr int in_flight = 2;
  DropoutOperands<S> of;
  RowDropout<S> dropped;

  template <int width>
  struct Loaded {
    Pack<S, width> x;
    Pack<std::uint8_t, width> kept;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    Loaded<width> in{};
    if (at.column >= dropped.rows.alive(at.row)) return in;
    in.x = load_pack<width>(of.x + at.element);
    if constexpr (is_given) in.kept = load_pack<width>(of.given + at.element);
    return in;
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    std::uint32_t bits = 0;
    if constexpr (is_given) {
      bits = dropped.given(at.row, at.column, in.kept);
    } else {
      bits = dropped.template drawn<width>(at.row, at.column);
    }
    store_pack(of.y + at.element, dropped.apply(in.x, bits));
    if constexpr (!is_given) {
      if (of.stored != nullptr) store_pack(of.stored + at.element, mask_of_bits<width>(bits));
    }
  }
};

template <typename S, bool is_given>
void launch_dropout(CudaContext const& context,
                    KernelCall const& call,
                    DropoutOperands<S> const& of) {
  DropoutRate<Compute<S>> const rate{dropout_attributes(call).rate};
  constexpr int width = pack_width<S>;
  launch_element_wise<width>(context.stream, extent_of(of.rows.rows, of.rows.columns),
                             can_pack(width, of.x, of.y, of.given, of.stored),
                             Dropout<S, is_given>{of, {of.rows, call.draw, rate}});
}

void drop(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_dropout<S>(context.tensor_rank, context.sequence, call);
    of.given != nullptr ? launch_dropout<S, true>(context, call, of)
                        : launch_dropout<S, false>(context, call, of);
  });
}

/// y = residual + dropout(x + bias).
template <typename S>
struct AddDropped {
  using C = Compute<S>;
  static constexpr int in_flight = 2;
  BiasDropoutAddOperands<S> of;
  RandomDraw draw;
  DropoutRate<C> rate;

  template <int width>
  struct Loaded {
    Pack<S, width> x, residual, bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.x + at.element), load_pack<width>(of.residual + at.element),
            load_pack_or_zeros<width>(of.bias, at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    std::uint32_t bits = ~0U;
    if (of.rate > 0) {
      auto const first = of.rows.first_element(at.row) + static_cast<std::uint64_t>(at.column);
      bits = draw_bits<width>(draw, rate.threshold, first);
      if (of.stored != nullptr) store_pack(of.stored + at.element, mask_of_bits<width>(bits));
    }
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const value = (widen(in.x[i]) + widen(in.bias[i])) * rate.scale;
      out[i] = narrow<S>(widen(in.residual[i]) + ((bits >> i & 1U) != 0 ? value : C{0}));
    }
    store_pack(of.y + at.element, out);
  }
};

}  // namespace

void dropout(CudaContext const& context, KernelCall const& call) { drop(context, call); }
void dropout_backward(CudaContext const& context, KernelCall const& call) { drop(context, call); }

void bias_dropout_add(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_bias_dropout_add<S>(context.tensor_rank, context.sequence, call);
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(of.rows.rows, of.rows.columns),
                               can_pack(width, of.x, of.residual, of.bias, of.y, of.stored),
                               AddDropped<S>{of, call.draw, DropoutRate<Compute<S>>{of.rate}});
  });
}

}  // namespace stagecraft::cuda_ops
