#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/cuda/row_dropout.cuh"

namespace stagecraft::cuda_ops {
namespace {

/// y = mask x / (1 - rate), the mask given, or drawn and, if wanted, stored.
template <typename S, bool is_given>
struct Dropout {
  static constexpr int in_flight = 2;
  S const* x;
  S* y;
  std::uint8_t const* given;
  std::uint8_t* stored;  ///< or null
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
    in.x = load_pack<width>(x + at.element);
    if constexpr (is_given) in.kept = load_pack<width>(given + at.element);
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
    store_pack(y + at.element, dropped.apply(in.x, bits));
    if constexpr (!is_given) {
      if (stored != nullptr) store_pack(stored + at.element, mask_of_bits<width>(bits));
    }
  }
};

template <bool is_given>
void drop(CudaContext const& context,
          KernelCall const& call,
          std::uint8_t const* given,
          std::uint8_t* stored) {
  Operand const& x = call.reads[0];
  with_storage_type(call.kind, x.type, [&](auto tag) {
    using S = decltype(tag);
    DropoutRows const rows = dropout_rows(context.tensor_rank, call, x, context.sequence);
    expect_tensor(call, x, element_type<S>(), x.shape);
    expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
    Dropout<S, is_given> const body{
        elements_of<S>(x),
        elements_of<S>(call.writes[0]),
        given,
        stored,
        {rows, call.draw, DropoutRate<Compute<S>>{dropout_attributes(call).rate}}};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(rows.rows, rows.columns),
                               can_pack(width, body.x, body.y, given, stored), body);
  });
}

/// y = residual + dropout(x + bias).
template <typename S>
struct AddDropped {
  using C = Compute<S>;
  static constexpr int in_flight = 2;
  S const* x;
  S const* residual;
  S const* bias;  ///< or null
  S* y;
  std::uint8_t* stored;  ///< or null
  bool drops;
  DropoutRows rows;
  RandomDraw draw;
  DropoutRate<C> rate;

  template <int width>
  struct Loaded {
    Pack<S, width> x, residual, bias;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(x + at.element), load_pack<width>(residual + at.element),
            load_pack_or_zeros<width>(bias, at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    std::uint32_t bits = ~0U;
    if (drops) {
      auto const first = rows.first_element(at.row) + static_cast<std::uint64_t>(at.column);
      bits = draw_bits<width>(draw, rate.threshold, first);
      if (stored != nullptr) store_pack(stored + at.element, mask_of_bits<width>(bits));
    }
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      C const value = (widen(in.x[i]) + widen(in.bias[i])) * rate.scale;
      out[i] = narrow<S>(widen(in.residual[i]) + ((bits >> i & 1U) != 0 ? value : C{0}));
    }
    store_pack(y + at.element, out);
  }
};

}  // namespace

void dropout(CudaContext const& context, KernelCall const& call) {
  drop<false>(context, call, nullptr, dropout_mask(call, call.writes, 1, call.reads[0].shape));
}

void dropout_backward(CudaContext const& context, KernelCall const& call) {
  std::uint8_t const* const given = dropout_mask(call, call.reads, 1, call.reads[0].shape);
  if (given != nullptr) {
    drop<true>(context, call, given, nullptr);
  } else {
    drop<false>(context, call, nullptr, nullptr);
  }
}

void bias_dropout_add(CudaContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[0];
  expect(call, x.shape.rank() == 3, "x is not [s, b, h]");
  with_storage_type(call.kind, x.type, [&](auto tag) {
    using S = decltype(tag);
    DropoutRows const rows = dropout_rows(context.tensor_rank, call, x, context.sequence);
    expect_tensor(call, x, element_type<S>(), x.shape);
    expect_tensor(call, call.reads[1], element_type<S>(), x.shape);
    expect_tensor(call, call.writes[0], element_type<S>(), x.shape);
    bool const biased = call.reads.size() == 3;
    if (biased) expect_tensor(call, call.reads[2], element_type<S>(), {rows.columns});
    AddDropped<S> const body{elements_of<S>(x),
                             elements_of<S>(call.reads[1]),
                             biased ? elements_of<S>(call.reads[2]) : nullptr,
                             elements_of<S>(call.writes[0]),
                             dropout_mask(call, call.writes, 1, x.shape),
                             dropout_attributes(call).rate > 0,
                             rows,
                             call.draw,
                             DropoutRate<Compute<S>>{dropout_attributes(call).rate}};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(
        context.stream, extent_of(rows.rows, rows.columns),
        can_pack(width, body.x, body.residual, body.bias, body.y, body.stored), body);
  });
}

}  // namespace stagecraft::cuda_ops
