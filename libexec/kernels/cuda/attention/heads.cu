#include "libexec/kernels/cuda/attention/heads_packing.hpp"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/head_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

/// A column of a token [heads * d]: which head, and which element of it.
struct HeadColumn {
  std::int64_t head, element;
  __device__ HeadColumn(std::int64_t column, std::int64_t d)
      : head{column / d}, element{column - head * d} {}
};

/// tokens [s, b, sum of heads * d] from the heads of up to three views, one after another.
template <typename S>
struct JoinHeads {
  static constexpr int in_flight = 4;
  HeadsView<S> part[3];
  std::int64_t d[3];    ///< of each part's heads
  std::int64_t end[3];  ///< of each part's columns
  std::int64_t sequences;
  S* joined;

  template <int width>
  struct Loaded {
    Pack<S, width> values;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int64_t const position = at.row / sequences;
    std::int64_t const sequence = at.row - position * sequences;
    auto const from = [&](int i, std::int64_t column) {
      HeadColumn const place{column, d[i]};
      return part[i].head(position, sequence, place.head) + place.element;
    };
    S const* const values = at.column < end[0]   ? from(0, at.column)
                            : at.column < end[1] ? from(1, at.column - end[0])
                                                 : from(2, at.column - end[1]);
    return {load_pack<width>(values)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    store_pack(joined + at.element, in.values);
  }
};

void join_views(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    std::int64_t const columns = expect_joined(call, element_type<S>());
    Shape const& first = call.reads[0].shape;
    HeadsView<S> const view{call.reads[0]};
    JoinHeads<S> body{{view, view, view}, {1, 1, 1}, {}, first[1], elements_of<S>(call.writes[0])};
    constexpr int width = pack_width<S>;
    bool fits = can_pack(width, body.joined);
    std::int64_t end = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      if (i < call.reads.size()) {
        body.part[i] = HeadsView<S>{call.reads[i]};
        body.d[i] = call.reads[i].shape[3];
        end += call.reads[i].shape[2] * body.d[i];
        fits = fits && heads_can_pack<S>(call.reads[i], width);
      }
      body.end[i] = end;
    }
    launch_element_wise<width>(context.stream, extent_of(first[0] * first[1], columns), fits, body);
  });
}

/// Each head of `few` is copied to `repeats` heads of `many`.
template <typename S>
struct RepeatHeads {
  static constexpr int in_flight = 4;
  HeadsView<S> few, many;
  std::int64_t repeats, sequences, d;

  template <int width>
  struct Loaded {
    Pack<S, width> values;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int64_t const position = at.row / sequences;
    HeadColumn const place{at.column, d};
    return {load_pack<width>(
        few.head(position, at.row - position * sequences, place.head / repeats) + place.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    std::int64_t const position = at.row / sequences;
    HeadColumn const place{at.column, d};
    store_pack(many.head(position, at.row - position * sequences, place.head) + place.element,
               in.values);
  }
};

/// Each head of `few` is the sum of `repeats` heads of `many`.
template <typename S>
struct SumHeads {
  static constexpr int in_flight = 2;
  HeadsView<S> few, many;
  std::int64_t repeats, sequences, d;

  template <int width>
  struct Loaded {
    Compute<S> sum[width];
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int64_t const position = at.row / sequences;
    HeadColumn const place{at.column, d};
    Loaded<width> all{};
#pragma unroll 4
    for (std::int64_t r = 0; r < repeats; ++r) {
      Pack<S, width> const values = load_pack<width>(
          many.head(position, at.row - position * sequences, place.head * repeats + r) +
          place.element);
#pragma unroll
      for (int i = 0; i < width; ++i) all.sum[i] += widen(values[i]);
    }
    return all;
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    std::int64_t const position = at.row / sequences;
    HeadColumn const place{at.column, d};
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<S>(in.sum[i]);
    store_pack(few.head(position, at.row - position * sequences, place.head) + place.element, out);
  }
};

/// Launches Body<S> for each pair of tensors of few and of many heads, over the heads of `over`.
template <template <typename> typename Body>
void for_groups(CudaContext const& context,
                KernelCall const& call,
                OperandList const& few,
                OperandList const& many,
                OperandList const& over) {
  std::int64_t const repeats = expect_groups(call, few, many);
  Shape const& shape = over[0].shape;
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    constexpr int width = pack_width<S>;
    for (std::size_t i = 0; i < 2; ++i) {
      Body<S> const body{HeadsView<S>{few[i]}, HeadsView<S>{many[i]}, repeats, shape[1], shape[3]};
      bool const fits = heads_can_pack<S>(few[i], width) && heads_can_pack<S>(many[i], width);
      launch_element_wise<width>(context.stream,
                                 extent_of(shape[0] * shape[1], shape[2] * shape[3]), fits, body);
    }
  });
}

}  // namespace

void repeat_heads(CudaContext const& context, KernelCall const& call) {
  for_groups<RepeatHeads>(context, call, call.reads, call.writes, call.writes);
}

void repeat_heads_backward(CudaContext const& context, KernelCall const& call) {
  for_groups<SumHeads>(context, call, call.writes, call.reads, call.writes);
}

void merge_heads(CudaContext const& context, KernelCall const& call) { join_views(context, call); }

void join_heads(CudaContext const& context, KernelCall const& call) { join_views(context, call); }

void concatenate(CudaContext const& context, KernelCall const& call) { join_views(context, call); }

}  // namespace stagecraft::cuda_ops
