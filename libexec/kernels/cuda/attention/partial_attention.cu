#include <cmath>

#include "libexec/kernels/cuda/column_sums.cuh"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/operands/attention_operands.hpp"

/// Parts of attention, each over some of the keys, become attention over all of them.
/// Source: Milakov and Gimelshein 2018, arXiv:1805.02867.
namespace stagecraft::cuda_ops {
namespace {

/// context = (context +) part exp(part_sum - sum).
template <typename S, bool adds>
struct Rescale {
  using C = Compute<S>;
  static constexpr int in_flight = 2;
  S const* part;
  C const* part_sums;
  C const* sums;
  S* context;
  ContextShape shape;

  template <int width>
  struct Loaded {
    Pack<S, width> part, before;
    C part_sum, sum;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int64_t const position = at.row / shape.b;
    std::int64_t const head = (at.row - position * shape.b) * shape.heads + at.column / shape.d;
    std::int64_t const place = head * shape.s + position;
    return {load_pack<width>(part + at.element),
            load_pack_or_zeros<width>(adds ? context : nullptr, at.element), part_sums[place],
            sums[place]};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    C const share = std::exp(in.part_sum - in.sum);
    Pack<S, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out[i] = narrow<S>(widen(in.before[i]) + share * widen(in.part[i]));
    }
    store_pack(context + at.element, out);
  }
};

template <bool adds>
void rescale(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    RescaledPart const all = rescaled_part<S>(call, adds);
    Rescale<S, adds> const body{elements_of<S>(all.part), elements_of<C>(all.part_sums),
                                elements_of<C>(all.sums), elements_of<S>(call.writes[0]),
                                all.shape};
    constexpr int width = pack_width<S>;
    bool const fits = all.shape.d % width == 0 && can_pack(width, body.part, body.context);
    launch_element_wise<width>(context.stream, extent_of(all.shape.tokens(), all.shape.width()),
                               fits, body);
  });
}

/// sum = log(e^sum + e^part), in place.
template <typename C>
struct AddLogSums {
  static constexpr int in_flight = 2;
  LogSumsOperands<C> of;

  template <int width>
  struct Loaded {
    Pack<C, width> sum, part;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    return {load_pack<width>(of.sums + at.element), load_pack<width>(of.part + at.element)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    Pack<C, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = add_logarithms(in.sum[i], in.part[i]);
    store_pack(of.sums + at.element, out);
  }
};

/// -exp(sink - log_sum) (d_context . context), a column for each head.
template <typename S>
struct SinkTerm {
  using Sum = Compute<S>;
  static constexpr int outputs = 1;
  S const* d_context;
  S const* context;
  Sum const* log_sums;
  S const* sinks;
  ContextShape shape;
  bool packed;

  template <int width>
  __device__ void add(std::int64_t row, std::int64_t head, Sum (&sum)[1][width]) const {
    std::int64_t const position = row / shape.b;
    std::int64_t const sequence = row - position * shape.b;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      std::int64_t const place = (row * shape.heads + head + i) * shape.d;
      Sum const dot = packed ? product<pack_width<S>>(place) : product<1>(place);
      Sum const log_sum = log_sums[(sequence * shape.heads + head + i) * shape.s + position];
      sum[0][i] -= std::exp(widen(sinks[head + i]) - log_sum) * dot;
    }
  }
  /// d_context . context over the d elements from `place` on.
  template <int width>
  __device__ Sum product(std::int64_t place) const {
    Sum dot = 0;
#pragma unroll 4
    for (std::int64_t e = 0; e < shape.d; e += width) {
      Pack<S, width> const gradient = load_pack<width>(d_context + place + e);
      Pack<S, width> const values = load_pack<width>(context + place + e);
#pragma unroll
      for (int i = 0; i < width; ++i) dot += widen(gradient[i]) * widen(values[i]);
    }
    return dot;
  }
};

}  // namespace

void rescale_context(CudaContext const& context, KernelCall const& call) {
  rescale<false>(context, call);
}

void add_rescaled_context(CudaContext const& context, KernelCall const& call) {
  rescale<true>(context, call);
}

void add_log_sums(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using C = Compute<decltype(tag)>;
    auto const of = expect_add_log_sums<C>(call);
    constexpr int width = pack_width<C>;
    launch_element_wise<width>(context.stream, flat_extent(of.elements),
                               can_pack(width, of.sums, of.part), AddLogSums<C>{of});
  });
}

void sinks_gradient(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[1].type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    ContextShape const shape = sinks_shape<S>(call);
    S const* const d_context = elements_of<S>(call.reads[0]);
    S const* const output = elements_of<S>(call.reads[1]);
    constexpr int width = pack_width<S>;
    SinkTerm<S> const term{d_context,
                           output,
                           elements_of<C>(call.reads[2]),
                           elements_of<S>(call.reads[3]),
                           shape,
                           shape.d % width == 0 && can_pack(width, d_context, output)};
    column_sums::add_column_sums<S, Compute<S>>(context, term, shape.tokens(), shape.heads, false,
                                                {elements_of<C>(call.writes[0])});
  });
}

}  // namespace stagecraft::cuda_ops
