#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/bias_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// The row that a group of rows adds is that of their place in the sequence.
template <typename S, typename A>
struct AddRows {
  static constexpr int in_flight = 4;
  AddedRows<S, A> of;
  SequencePart sequence;
  std::int64_t positions;  ///< of the rank

  template <int width>
  struct Loaded {
    Pack<S, width> x;
    Pack<A, width> added;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int64_t const number = of.group == 1 ? at.row : at.row / of.group;
    A const* const row = of.added + sequence.row_of(number, positions) * of.columns;
    return {load_pack<width>(of.x + at.element), load_pack<width>(row + at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<S>(widen(in.x[i]) + widen(in.added[i]));
    store_pack(of.x + at.element, out);
  }
};

template <typename S, typename A>
void add_rows(CudaContext const& context,
              AddedRows<S, A> const& all,
              Extent const& extent,
              SequencePart const& sequence = {},
              std::int64_t positions = 1) {
  constexpr int width = pack_width<S>;
  launch_element_wise<width>(context.stream, extent, can_pack(width, all.x, all.added),
                             AddRows<S, A>{all, sequence, positions});
}

/// d table[position] += dy[position, sequence] over the sequences in their order.
template <typename S, typename G>
struct AddSequences {
  static constexpr int in_flight = 1;
  PositionsGradientOperands<S, G> of;
  SequencePart part;

  template <int width>
  struct Loaded {
    Pack<Compute<S>, width> sum;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    Pack<G, width> const before = load_pack<width>(table_place(at));
    Loaded<width> all;
#pragma unroll
    for (int i = 0; i < width; ++i) all.sum[i] = widen(before[i]);
    S const* const first = of.dy + at.row * of.sequences * of.columns + at.column;
#pragma unroll 4
    for (std::int64_t sequence = 0; sequence < of.sequences; ++sequence) {
      Pack<S, width> const row = load_pack<width>(first + sequence * of.columns);
#pragma unroll
      for (int i = 0; i < width; ++i) all.sum[i] += widen(row[i]);
    }
    return all;
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<G, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<G>(in.sum[i]);
    store_pack(table_place(at), out);
  }
  __device__ G* table_place(ElementPlace at) const {
    return of.table + part.row_of(at.row, of.rows) * of.columns + at.column;
  }
};

}  // namespace

void bias_add(CudaContext const& context, KernelCall const& call) {
  with_added_bias(
      call, [&](auto const& all) { add_rows(context, all, extent_of(all.rows, all.columns)); });
}

void add(CudaContext const& context, KernelCall const& call) {
  with_addends(call, [&](auto all) {
    Extent const flat = flat_extent(all.columns);
    all.columns = flat.columns;
    add_rows(context, all, flat);
  });
}

void add_positions(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    auto const all = expect_add_positions<decltype(tag)>(context.sequence, call);
    add_rows(context, all, extent_of(all.rows, all.columns), context.sequence,
             call.reads[0].shape[0]);
  });
}

void positions_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_gradient_type<S>(call, call.writes[0], [&](auto gradient) {
      using G = decltype(gradient);
      auto const of = expect_positions_gradient<S, G>(context.sequence, call);
      constexpr int width = pack_width<S>;
      launch_element_wise<width>(context.stream, extent_of(of.rows, of.columns),
                                 can_pack(width, of.dy, of.table),
                                 AddSequences<S, G>{of, context.sequence});
    });
  });
}

}  // namespace stagecraft::cuda_ops
