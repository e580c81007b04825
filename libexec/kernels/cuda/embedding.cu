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
  std::uint8_t* mask;
  SequencePart sequence;
  std::int64_t rows;  ///< of the rank

  template <int width>
  struct Loaded {};
  template <int width>
  __device__ Loaded<width> load(ElementPlace) const {
    return {};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const&) const {
    std::int64_t const row = sequence.row_of(at.row, rows);
    Pack<std::uint8_t, width> out;
#pragma unroll
    for (int i = 0; i < width; ++i) out[i] = at.column + i > row ? 1 : 0;
    store_pack(mask + at.element, out);
  }
};

/// The table's row of each token; zeros for the words of other ranks.
template <typename S>
struct LookUp {
  static constexpr int in_flight = 4;
  std::int64_t const* tokens;
  S const* table;
  S* rows;
  WordLookup lookup;
  std::int64_t columns;

  template <int width>
  struct Loaded {
    Pack<S, width> values;
  };
  template <int width>
  __device__ Loaded<width> load(ElementPlace at) const {
    std::int64_t const row = lookup.row_of(__ldg(tokens + at.row));
    return {load_pack_or_zeros<width>(row < 0 ? nullptr : table, row * columns + at.column)};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const& in) const {
    store_pack(rows + at.element, in.values);
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
template <typename S>
struct SumWords {
  using C = Compute<S>;
  static constexpr int in_flight = 1;
  S const* dy;
  std::int64_t const* tokens;
  WordChain chain;
  C* gradient;
  WordLookup lookup;
  std::int64_t columns;

  template <int width>
  struct Loaded {};
  template <int width>
  __device__ Loaded<width> load(ElementPlace) const {
    return {};
  }
  template <int width>
  __device__ void finish(ElementPlace at, Loaded<width> const&) const {
    if (chain.has_previous[at.row] != 0) return;
    std::int64_t const row = lookup.row_of(tokens[at.row]);
    if (row < 0) return;
    C* const to = gradient + row * columns + at.column;
    Pack<C, width> sum = load_pack<width>(to);
    constexpr int batch = 4;  // rows in flight; the links are read ahead of them
    for (std::int64_t token = at.row; token >= 0;) {
      Pack<S, width> values[batch];
      bool there[batch];
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        there[k] = token >= 0;
        if (!there[k]) continue;
        values[k] = load_pack<width>(dy + token * columns + at.column);
        token = chain.next[token];
      }
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        if (!there[k]) continue;
#pragma unroll
        for (int i = 0; i < width; ++i) sum[i] += widen(values[k][i]);
      }
    }
    store_pack(to, sum);
  }
};

}  // namespace

void make_causal_mask(CudaContext const& context, KernelCall const& call) {
  Shape const& shape = call.writes[0].shape;
  expect(call, shape.rank() == 2, "the mask is not [s/c, s]");
  expect_tensor(call, call.writes[0], ElementType::u8, shape);
  expect(call, context.sequence.row_of(shape[0] - 1, shape[0]) < shape[1],
         "the mask has more rows than columns");
  CausalMask const body{elements_of<std::uint8_t>(call.writes[0]), context.sequence, shape[0]};
  launch_element_wise<access_bytes>(context.stream, extent_of(shape[0], shape[1]),
                                    can_pack(access_bytes, body.mask), body);
}

void embedding(CudaContext const& context, KernelCall const& call) {
  Operand const& table = call.reads[1];
  Operand const& rows = call.writes[0];
  WordLookup const lookup = expect_lookup(context.tensor_rank, call, call.reads[0], rows, table);
  expect(call, rows.type == table.type, "rows and table differ in type");
  with_storage_type(call.kind, table.type, [&](auto tag) {
    using S = decltype(tag);
    LookUp<S> const body{elements_of<std::int64_t>(call.reads[0]), elements_of<S>(table),
                         elements_of<S>(rows), lookup, rows.shape[2]};
    constexpr int width = pack_width<S>;
    launch_element_wise<width>(context.stream,
                               extent_of(call.reads[0].shape.elements(), rows.shape[2]),
                               can_pack(width, body.table, body.rows), body);
  });
}

void embedding_backward(CudaContext const& context, KernelCall const& call) {
  Operand const& dy = call.reads[0];
  Operand const& gradient = call.writes[0];
  WordLookup const lookup = expect_lookup(context.tensor_rank, call, call.reads[1], dy, gradient);
  std::int64_t const h = dy.shape[2];
  with_storage_type(call.kind, dy.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    expect_tensor(call, gradient, element_type<C>(), {lookup.words, h});
    std::int64_t const count = call.reads[1].shape.elements();
    // Processes as many tokens at a time as there is room for links; their sums are added in order.
    constexpr std::int64_t most = CudaContext::scratch_bytes / 8;
    WordChain const chain{context.scratch_of<std::int32_t>(),
                          context.scratch_of<std::uint8_t>() + most * 4};
    for (std::int64_t first = 0; first < count; first += most) {
      std::int64_t const n = std::min(most, count - first);
      SumWords<S> const body{elements_of<S>(dy) + first * h,
                             elements_of<std::int64_t>(call.reads[1]) + first,
                             chain,
                             elements_of<C>(gradient),
                             lookup,
                             h};
      check(cudaMemsetAsync(chain.has_previous, 0, static_cast<std::size_t>(n), context.stream),
            "cudaMemsetAsync");
      constexpr unsigned warps = 8;
      launch(link_words, static_cast<unsigned>((n + warps - 1) / warps), dim3{warp_threads, warps},
             context.stream, body.tokens, static_cast<int>(n), chain);
      constexpr int width = pack_width<S>;
      launch_element_wise<width>(context.stream, extent_of(n, h),
                                 can_pack(width, body.dy, body.gradient), body);
    }
  });
}

void slice(CudaContext const& context, KernelCall const& call) {
  Operand const& whole = call.reads[0];
  Operand const& part = call.writes[0];
  std::int64_t const count = part.shape.elements();
  expect_elements(call, whole, part.type, whole.shape.elements());
  expect_elements(call, part, part.type, count);
  std::int64_t const size = element_size(part.type);
  std::int64_t const first = std::min(context.tensor_rank * count, whole.shape.elements());
  std::int64_t const copied = std::min(count, whole.shape.elements() - first);
  auto* const to = elements_of<std::byte>(part);
  if (copied > 0) {
    check(cudaMemcpyAsync(to, elements_of<std::byte>(whole) + first * size,
                          static_cast<std::size_t>(copied * size), cudaMemcpyDeviceToDevice,
                          context.stream),
          "cudaMemcpyAsync");
  }
  if (count > copied) {
    check(cudaMemsetAsync(to + copied * size, 0, static_cast<std::size_t>((count - copied) * size),
                          context.stream),
          "cudaMemsetAsync");
  }
}

}  // namespace stagecraft::cuda_ops
