#include <cstdint>
#include <span>

#include "libexec/kernels/cuda/attention/heads_packing.hpp"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/head_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// Rows of heads in another order, as contiguous rows.
template <typename S>
struct CopyRows {
  static constexpr int in_flight = 4;
  HeadsView<S> from;
  S* to;
  RowOrder order;
  std::int64_t sequences, d;

  template <int width>
  struct Loaded {
    Pack<S, width> values;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int64_t const row = at.row / sequences;
    std::int64_t const head = at.column / d;
    return {load_pack<width>(from.head(order.source_of(row), at.row - row * sequences, head) +
                             at.column - head * d)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    store_pack(to + at.element, in.values);
  }
};

void copy_rows(CudaContext const& context, KernelCall const& call, RowOrder const& order) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    Operand const rows = copied_rows<S>(call);
    Shape const& shape = rows.shape;
    CopyRows<S> const body{HeadsView<S>{rows}, elements_of<S>(call.writes[0]), order, shape[1],
                           shape[3]};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(shape[0] * shape[1], shape[2] * shape[3]),
                               heads_can_pack<S>(rows, width) && can_pack(width, body.to), body);
  });
}

/// Columns of a and b to those of what joins them, or back.
template <typename S, bool joins>
struct MoveColumns {
  static constexpr int in_flight = 4;
  S* a;
  S* b;
  S* joined;
  JoinedColumns columns;

  template <int width>
  struct Loaded {
    Pack<S, width> values;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(joins ? part(at) : joined + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    store_pack(joins ? joined + at.element : part(at), in.values);
  }
  __device__ S* part(ElementPlace at) const {
    std::int64_t const behind = at.column - columns.left;
    return behind < 0 ? a + at.row * columns.left + at.column : b + at.row * columns.right + behind;
  }
};

template <bool joins>
void move_columns(CudaContext const& context,
                  KernelCall const& call,
                  Operand const& a,
                  Operand const& b,
                  Operand const& joined) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    JoinedColumns const columns = joined_columns<S>(call, a, b, joined);
    MoveColumns<S, joins> const body{elements_of<S>(a), elements_of<S>(b), elements_of<S>(joined),
                                     columns};
    constexpr int width = pack_width<S>;
    bool const fits = columns.left % width == 0 && columns.right % width == 0 &&
                      can_pack(width, body.a, body.b, body.joined);
    launch_element_wise<width>(context.stream,
                               extent_of(columns.rows, columns.left + columns.right), fits, body);
  });
}

/// Calls body(U{}) with an unsigned integer of so many bytes: copies do not look at what they move.
template <typename Body>
void with_bytes(KernelCall const& call, std::int64_t bytes, Body const& body) {
  if (bytes == 1) return body(std::uint8_t{});
  if (bytes == 2) return body(std::uint16_t{});
  if (bytes == 4) return body(std::uint32_t{});
  if (bytes == 8) return body(std::uint64_t{});
  refuse(call.kind, "elements of this size have no kernel");
}

/// Tokens to the parts of their heads, or back.
template <typename U, bool to_parts>
struct MoveParts {
  static constexpr int in_flight = 4;
  U* tokens;
  U* parts;
  HeadParts all;

  template <int width>
  struct Loaded {
    Pack<U, width> values;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(to_parts ? of_token(at) : parts + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    store_pack(to_parts ? parts + at.element : of_token(at), in.values);
  }
  /// Rows are those of the parts.
  __device__ U* of_token(ElementPlace at) const {
    std::int64_t const part = at.row / (all.s * all.b);
    std::int64_t const token = at.row - part * all.s * all.b;
    std::int64_t const position = token / all.b;
    return tokens + position * all.position_stride +
           (token - position * all.b) * all.sequence_stride + part * all.width + at.column;
  }
};

template <bool to_parts>
void move_parts(CudaContext const& context,
                KernelCall const& call,
                Operand const& tokens,
                Operand const& parts) {
  HeadParts const all = head_parts(call, tokens, parts);
  with_bytes(call, element_size(tokens.type), [&](auto tag) {
    using U = decltype(tag);
    MoveParts<U, to_parts> const body{elements_of<U>(tokens), elements_of<U>(parts), all};
    constexpr int width = pack_width<U>;
    bool const fits = all.width % width == 0 && all.position_stride % width == 0 &&
                      all.sequence_stride % width == 0 && can_pack(width, body.tokens, body.parts);
    launch_element_wise<width>(context.stream, extent_of(all.count * all.s * all.b, all.width),
                               fits, body);
  });
}

}  // namespace

void copy_tensor(CudaContext const& context, KernelCall const& call) {
  copy_rows(context, call, RowOrder{});
}

void reorder_rows(CudaContext const& context, KernelCall const& call) {
  copy_rows(context, call, row_order(call));
}

void join_columns(CudaContext const& context, KernelCall const& call) {
  move_columns<true>(context, call, call.reads[0], call.reads[1], call.writes[0]);
}

void split_columns(CudaContext const& context, KernelCall const& call) {
  move_columns<false>(context, call, call.writes[0], call.writes[1], call.reads[0]);
}

void scatter_heads(CudaContext const& context, KernelCall const& call) {
  move_parts<true>(context, call, call.reads[0], call.writes[0]);
}

void gather_heads(CudaContext const& context, KernelCall const& call) {
  move_parts<false>(context, call, call.writes[0], call.reads[0]);
}

void zero_fill(CudaContext const& context, KernelCall const& call) {
  std::span<std::byte> const bytes = expect_zero_fill(call);
  if (bytes.empty()) return;
  check(cudaMemsetAsync(bytes.data(), 0, bytes.size(), context.stream), "cudaMemsetAsync");
}

}  // namespace stagecraft::cuda_ops
