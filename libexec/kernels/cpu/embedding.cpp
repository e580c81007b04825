#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/operands/vocabulary_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Adds to the row of each word the gradients of its tokens, in their order. Sums that are narrower
/// than their gradient are rounded once: the first token of a word looks for the others, as there
/// is no memory for links.
template <typename S, typename G>
void sum_words(KernelContext const& context, EmbeddingBackwardOperands<S, G> const& of) {
  constexpr bool is_wide = std::is_same_v<G, Compute<S>>;
  constexpr std::int64_t block = 128;
  std::int64_t const h = of.columns;
  std::int64_t const* const end = of.tokens + of.count;
  // Split by columns, so that a word that occurs often is summed in the order of its tokens.
  context.pool->run((h + block - 1) / block, [&](std::int64_t task, int) {
    std::int64_t const first = task * block;
    std::int64_t const width = std::min(block, h - first);
    Compute<S> sum[block];
    for (std::int64_t const* token = of.tokens; token != end; ++token) {
      std::int64_t const row = of.lookup.row_of(*token);
      bool const is_summed = !is_wide && std::find(of.tokens, token, *token) != token;
      if (row < 0 || is_summed) continue;
      G* const to = of.gradient + row * h + first;
      for (std::int64_t j = 0; j < width; ++j) sum[j] = widen(to[j]);
      for (std::int64_t const* other = token; other != end;
           other = is_wide ? end : std::find(other + 1, end, *token)) {
        S const* const from = of.dy + (other - of.tokens) * h + first;
        for (std::int64_t j = 0; j < width; ++j) sum[j] += widen(from[j]);
      }
      for (std::int64_t j = 0; j < width; ++j) to[j] = narrow<G>(sum[j]);
    }
  });
}

}  // namespace

/// The mask is 1 for columns that a row must not see: those above the diagonal.
void make_causal_mask(KernelContext const& context, KernelCall const& call) {
  MaskRows const of = expect_causal_mask(context.sequence, call);
  std::int64_t const s = of.columns;
  for_row_ranges(*context.pool, of.rows, s, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const seen = context.sequence.row_of(row, of.rows) + 1;
      std::fill_n(of.mask + row * s, seen, std::uint8_t{0});
      std::fill_n(of.mask + row * s + seen, s - seen, std::uint8_t{1});
    }
  });
}

void embedding(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[1].type, [&](auto tag) {
    using S = decltype(tag);
    auto const of = expect_embedding<S>(context.tensor_rank, call);
    std::int64_t const h = of.columns;
    for_row_ranges(*context.pool, of.count, h, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::int64_t const row = of.lookup.row_of(of.tokens[i]);
        S* const to = of.rows + i * h;
        if (row < 0) {
          std::fill_n(to, h, S{});
        } else {
          std::copy_n(of.table + row * h, h, to);
        }
      }
    });
  });
}

void embedding_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    with_gradient_type<S>(call, call.writes[0], [&](auto gradient) {
      sum_words(context,
                expect_embedding_backward<S, decltype(gradient)>(context.tensor_rank, call));
    });
  });
}

void slice(KernelContext const& context, KernelCall const& call) {
  SliceBytes const part = expect_slice(context.tensor_rank, call);
  std::fill_n(std::copy_n(part.from, part.copied, part.to), part.zeros, std::byte{0});
}

}  // namespace stagecraft::STAGECRAFT_ISA
