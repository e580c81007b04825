#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"

namespace stagecraft::cuda_ops {
namespace {

/// x += added, in place: a row of `added`, whose elements are of type A, for every `group` rows of
/// x, which is that of their place in the sequence.
template <typename S, typename A>
struct AddRows {
  static constexpr int in_flight = 4;
  S* x;
  A const* added;
  std::int64_t columns;
  std::int64_t group;
  SequencePart sequence;
  std::int64_t positions;  ///< of the rank

  template <int width>
  struct Loaded {
    Pack<S, width> x;
    Pack<A, width> added;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int64_t const number = group == 1 ? at.row : at.row / group;
    A const* const row = added + sequence.row_of(number, positions) * columns;
    return {load_pack<width>(x + at.element), load_pack<width>(row + at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<S>(widen(in.x[i]) + widen(in.added[i]));
    store_pack(x + at.element, out);
  }
};

template <typename S, typename A = S>
void add_rows(CudaContext const& context,
              KernelCall const& call,
              Extent const& extent,
              std::int64_t group,
              SequencePart const& sequence = {},
              std::int64_t positions = 1) {
  expect_elements(call, call.writes[0], element_type<S>(), extent.elements);
  AddRows<S, A> const body{elements_of<S>(call.writes[0]),
                           elements_of<A>(call.reads[1]),
                           extent.columns,
                           group,
                           sequence,
                           positions};
  constexpr int width = pack_width<S>;
  launch_element_wise<width>(context.stream, extent, can_pack(width, body.x, body.added), body);
}

/// d table[position] += dy[position, sequence] over the sequences in their order.
template <typename S>
struct AddSequences {
  static constexpr int in_flight = 1;
  using C = Compute<S>;
  S const* dy;
  C* table;
  std::int64_t columns;
  std::int64_t sequences;
  SequencePart part;
  std::int64_t positions;  ///< of the rank

  template <int width>
  struct Loaded {
    Pack<C, width> sum;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    Loaded<width> all{load_pack<width>(table_place(at))};
    S const* const first = dy + at.row * sequences * columns + at.column;
#pragma unroll 4
    for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
      Pack<S, width> const row = load_pack<width>(first + sequence * columns);
#pragma unroll
      for (int i = 0; i < width; ++i) all.sum[i] += widen(row[i]);
    }
    return all;
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    store_pack(table_place(at), in.sum);
  }
  __device__ C* table_place(ElementPlace at) const {
    return table + part.row_of(at.row, positions) * columns + at.column;
  }
};

}  // namespace

void bias_add(CudaContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[0];
  expect(call, x.shape.rank() > 0 && last_extent(x) > 0, "x has no columns");
  std::int64_t const n = last_extent(x);
  Operand const& bias = call.reads[1];
  expect_tensor(call, bias, bias.type, {n});
  std::int64_t const rows = x.shape.elements() / n;
  with_storage_type(call.kind, bias.type, [&](auto tag) {
    using A = decltype(tag);
    // Logits of a router are in fp32 where its bias has the type of the activations.
    if (x.type == element_type<A>()) {
      add_rows<A>(context, call, extent_of(rows, n), rows);
    } else {
      add_rows<Compute<A>, A>(context, call, extent_of(rows, n), rows);
    }
  });
}

void add(CudaContext const& context, KernelCall const& call) {
  Operand const& a = call.reads[0];
  expect_tensor(call, call.reads[1], a.type, a.shape);
  with_storage_type(call.kind, a.type, [&](auto tag) {
    add_rows<decltype(tag)>(context, call, flat_extent(a.shape.elements()), 1);
  });
}

void add_positions(CudaContext const& context, KernelCall const& call) {
  Operand const& x = call.reads[0];
  expect(call, x.shape.rank() == 3, "x is not [s, b, h]");
  Operand const& table = call.reads[1];
  expect_positions(call, table, x.shape[0], context.sequence);
  expect_tensor(call, table, x.type, {table.shape[0], x.shape[2]});
  with_storage_type(call.kind, x.type, [&](auto tag) {
    add_rows<decltype(tag)>(context, call, extent_of(x.shape[0] * x.shape[1], x.shape[2]),
                            x.shape[1], context.sequence, x.shape[0]);
  });
}

void positions_gradient(CudaContext const& context, KernelCall const& call) {
  Operand const& dy = call.reads[0];
  expect(call, dy.shape.rank() == 3, "dy is not [s, b, h]");
  with_storage_type(call.kind, dy.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    expect_tensor(call, dy, element_type<S>(), dy.shape);
    Operand const& table = call.writes[0];
    expect_positions(call, table, dy.shape[0], context.sequence);
    expect_tensor(call, table, element_type<C>(), {table.shape[0], dy.shape[2]});
    AddSequences<S> const body{elements_of<S>(dy), elements_of<C>(table), dy.shape[2],
                               dy.shape[1],        context.sequence,      dy.shape[0]};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(dy.shape[0], dy.shape[2]),
                               can_pack(width, body.dy, body.table), body);
  });
}

}  // namespace stagecraft::cuda_ops
