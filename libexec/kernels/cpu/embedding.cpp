#include <algorithm>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/operands/vocabulary_operands.hpp"

namespace stagecraft::STAGECRAFT_ISA {
/// The mask is 1 for columns that a row must not see: those above the diagonal.
void make_causal_mask(KernelContext const& context, KernelCall const& call) {
  Shape const& shape = call.writes[0].shape;
  expect(call, shape.rank() == 2, "the mask is not [s/c, s]");
  expect_tensor(call, call.writes[0], ElementType::u8, shape);
  std::int64_t const s = shape[1];
  expect(call, context.sequence.row_of(shape[0] - 1, shape[0]) < s,
         "the mask has more rows than columns");
  auto* const mask = elements_of<std::uint8_t>(call.writes[0]);
  for_row_ranges(*context.pool, shape[0], s, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      std::int64_t const seen = context.sequence.row_of(row, shape[0]) + 1;
      std::fill_n(mask + row * s, seen, std::uint8_t{0});
      std::fill_n(mask + row * s + seen, s - seen, std::uint8_t{1});
    }
  });
}

void embedding(KernelContext const& context, KernelCall const& call) {
  Operand const& table = call.reads[1];
  Operand const& rows = call.writes[0];
  WordLookup const lookup = expect_lookup(context.tensor_rank, call, call.reads[0], rows, table);
  expect(call, rows.type == table.type, "rows and table differ in type");
  std::int64_t const h = rows.shape[2];
  with_storage_type(call.kind, table.type, [&](auto tag) {
    using S = decltype(tag);
    auto const* const tokens = elements_of<std::int64_t>(call.reads[0]);
    std::int64_t const count = call.reads[0].shape.elements();
    for_row_ranges(*context.pool, count, h, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::int64_t const row = lookup.row_of(tokens[i]);
        S* const to = elements_of<S>(rows) + i * h;
        if (row < 0) {
          std::fill_n(to, h, S{});
        } else {
          std::copy_n(elements_of<S>(table) + row * h, h, to);
        }
      }
    });
  });
}

void embedding_backward(KernelContext const& context, KernelCall const& call) {
  Operand const& dy = call.reads[0];
  Operand const& gradient = call.writes[0];
  WordLookup const lookup = expect_lookup(context.tensor_rank, call, call.reads[1], dy, gradient);
  std::int64_t const h = dy.shape[2];
  with_storage_type(call.kind, dy.type, [&](auto tag) {
    using S = decltype(tag);
    using C = Compute<S>;
    expect_tensor(call, gradient, element_type<C>(), {lookup.words, h});
    auto const* const tokens = elements_of<std::int64_t>(call.reads[1]);
    std::int64_t const count = call.reads[1].shape.elements();
    // Split by columns, so that a word that occurs often is summed in the order of its tokens.
    constexpr std::int64_t block = 128;
    context.pool->run((h + block - 1) / block, [&](std::int64_t task, int) {
      std::int64_t const first = task * block;
      std::int64_t const width = std::min(block, h - first);
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t const row = lookup.row_of(tokens[i]);
        if (row < 0) continue;
        S const* const from = elements_of<S>(dy) + i * h + first;
        C* const to = elements_of<C>(gradient) + row * h + first;
        for (std::int64_t j = 0; j < width; ++j) to[j] += widen(from[j]);
      }
    });
  });
}

void slice(KernelContext const& context, KernelCall const& call) {
  Operand const& whole = call.reads[0];
  Operand const& part = call.writes[0];
  std::int64_t const count = part.shape.elements();
  expect_elements(call, whole, part.type, whole.shape.elements());
  expect_elements(call, part, part.type, count);
  std::int64_t const size = element_size(part.type);
  std::int64_t const first = std::min(context.tensor_rank * count, whole.shape.elements());
  std::int64_t const copied = std::min(count, whole.shape.elements() - first);
  std::byte* const rest = std::copy_n(elements_of<std::byte>(whole) + first * size, copied * size,
                                      elements_of<std::byte>(part));
  std::fill_n(rest, (count - copied) * size, std::byte{0});
}

}  // namespace stagecraft::STAGECRAFT_ISA
