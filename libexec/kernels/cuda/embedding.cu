#include <algorithm>

#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/cuda/element_wise.cuh"
#include "libexec/kernels/operands/vocabulary_operands.hpp"

namespace stagecraft::cuda_ops {
namespace {

constexpr int warp_threads = 32;

/// The mask is 1 for columns that a row must not see: those above the diagonal.
struct CausalMask {
  static constexpr int in_flight = 4;
  MaskRows of;
  SequencePart sequence;

  template <int width>
  struct Loaded {};
  template <int width>
  __device__ Loaded<width> load(ElementPlace) const {
    return {};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const&) const {
    std::int64_t const row = sequence.row_of(at.row, of.rows);
    Pack<std::uint8_t, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = at.column + i > row ? 1 : 0;
    store_pack(of.mask + at.element, out);
  }
};

/// The table's row of each token; zeros for the words of other ranks.
template <typename S>
struct LookUp {
  static constexpr int in_flight = 4;
  EmbeddingOperands<S> of;

  template <int width>
  struct Loaded {
    Pack<S, width> values;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int64_t const row = of.lookup.row_of(__ldg(of.tokens + at.row));
    return {load_pack_or_zeros<width>(row < 0 ? nullptr : of.table, row * of.columns + at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    store_pack(of.rows + at.element, in.values);
  }
};

/// Links the occurrences of each word in the order of the tokens.
struct WordChain {
  std::int32_t* next;          ///< the next token of the same word, or -1
  std::uint8_t* has_previous;  ///< zeros before
};

/// One warp per token looks for the next token of its word. Reads n^2 / 2 tokens at most, from
/// cache: 0.3 GB for 8192 tokens that are all different.
__global__ void link_words(std::int64_t const* tokens, int count, WordChain chain) {
  int const token = static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y);
  if (token >= count) return;
  auto const lane = static_cast<int>(threadIdx.x);
  std::int64_t const word = tokens[token];
  int found = count;
  for (int first = token + 1; first < count && found == count; first += warp_threads) {
    int const candidate = first + lane;
    found = candidate < count && tokens[candidate] == word ? candidate : count;
#pragma unroll
    for (int offset = warp_threads / 2; offset > 0; offset /= 2) {
      int const other = __shfl_xor_sync(0xffffffffU, found, offset);
      found = other < found ? other : found;
    }
  }
  if (lane != 0) return;
  chain.next[token] = found < count ? found : -1;
  if (found < count) chain.has_previous[found] = 1;
}

/// d table[word] += dy over the tokens of a word, in their order, by the thread of the first one.
template <typename S, typename G>
struct SumWords {
  static constexpr int in_flight = 1;
  EmbeddingBackwardOperands<S, G> of;  ///< of tokens that chain links
  WordChain chain;

  template <int width>
  struct Loaded {};
  template <int width>
  __device__ Loaded<width> load(ElementPlace) const {
    return {};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const&) const {
    if (chain.has_previous[at.row] != 0) return;
    std::int64_t const row = of.lookup.row_of(of.tokens[at.row]);
    if (row < 0) return;
    G* const to = of.gradient + row * of.columns + at.column;
    Pack<G, width> out = load_pack<width>(to);
    Compute<S> sum[width];
#pragma unroll
    for (int i = 0; i < width; ++i) sum[i] = widen(out[i]);
    constexpr int batch = 4;  // rows in flight; the links are read ahead of them
    for (std::int64_t token = at.row; token >= 0;) {
      Pack<S, width> values[batch];
      bool there[batch];
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        there[k] = token >= 0;
        if (!there[k]) continue;
        values[k] = load_pack<width>(of.dy + token * of.columns + at.column);
        token = chain.next[token];
      }
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        if (!there[k]) continue;
#pragma unroll
        for (int i = 0; i < width; ++i) sum[i] += widen(values[k][i]);
      }
    }
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = narrow<G>(sum[i]);
    store_pack(to, out);
  }
};

/// Processes as many tokens at a time as there is room for links; their sums are added in order.
template <typename S, typename G>
void sum_words(CudaContext const& context, EmbeddingBackwardOperands<S, G> of) {
  constexpr std::int64_t most = CudaContext::scratch_bytes / 8;
  WordChain const chain{context.scratch_of<std::int32_t>(),
                        context.scratch_of<std::uint8_t>() + most * 4};
  for (std::int64_t left = of.count; left > 0; left -= of.count) {
    of.count = std::min(most, left);
    check(
        cudaMemsetAsync(chain.has_previous, 0, static_cast<std::size_t>(of.count), context.stream),
        "cudaMemsetAsync");
    constexpr unsigned warps = 8;
    launch(link_words, static_cast<unsigned>((of.count + warps - 1) / warps),
           dim3{warp_threads, warps}, context.stream, of.tokens, static_cast<int>(of.count), chain);
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(of.count, of.columns),
                               can_pack(width, of.dy, of.gradient), SumWords<S, G>{of, chain});
    of.dy += of.count * of.columns;
    of.tokens += of.count;
  }
}

}  // namespace

void make_causal_mask(CudaContext const& context, KernelCall const& call) {
  CausalMask const body{expect_causal_mask(context.sequence, call), context.sequence};
  launch_element_wise<access_bytes>(context.stream, extent_of(body.of.rows, body.of.columns),
                                    can_pack(access_bytes, body.of.mask), body);
}

void embedding(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[1].type, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_embedding<S>(context.tensor_rank, call);
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream, extent_of(of.count, of.columns),
                               can_pack(width, of.table, of.rows), LookUp<S>{of});
  });
}

void embedding_backward(CudaContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_gradient_type<S>(call, call.writes[0], [&](auto gradient) {
      sum_words(context,
                expect_embedding_backward<S, decltype(gradient)>(context.tensor_rank, call));
    });
  });
}

void slice(CudaContext const& context, KernelCall const& call) {
  SliceBytes const part = expect_slice(context.tensor_rank, call);
  if (part.copied > 0) {
    check(cudaMemcpyAsync(part.to, part.from, static_cast<std::size_t>(part.copied),
                          cudaMemcpyDeviceToDevice, context.stream),
          "cudaMemcpyAsync");
  }
  if (part.zeros > 0) {
    check(cudaMemsetAsync(part.to + part.copied, 0, static_cast<std::size_t>(part.zeros),
                          context.stream),
          "cudaMemsetAsync");
  }
}

}  // namespace stagecraft::cuda_ops
