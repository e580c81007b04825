#include <algorithm>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_map.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The experts of a map [tokens, experts] that a rank has: all of them, or its share.
struct ExpertRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t all = 0;

  /// The element of a map or matrix [tokens, experts] of a token's own expert.
  std::int64_t element(std::int64_t token, std::int64_t own) const {
    return token * all + first + own;
  }
};

ExpertRange experts_of(KernelContext const& context,
                       KernelCall const& call,
                       std::int64_t count,
                       std::int64_t all) {
  expect(call, count > 0 && all % count == 0, "the experts are not split evenly");
  return {count == all ? 0 : context.expert_rank * count, count, all};
}

/// Fills the map, expert by expert; returns the number of rows.
std::int64_t number_rows(RowMap const& rows, ExpertRange const& experts, Choice const* choices) {
  for (std::int64_t token = 0; token < rows.tokens; ++token) {
    std::fill_n(rows.of(token), 2 * rows.experts + 1, 0);
  }
  std::int64_t next = 0;
  for (std::int64_t expert = 0; expert < rows.experts; ++expert) {
    for (std::int64_t token = 0; token < rows.tokens; ++token) {
      if (!has_row(choices[experts.element(token, expert)])) continue;
      std::int32_t const i = rows.count(token)++;
      rows.row(token, i) = static_cast<std::int32_t>(next++);
      rows.expert(token, i) = static_cast<std::int32_t>(expert);
    }
  }
  return next;
}

template <typename S>
void permute_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  Operand const& probabilities = call.reads[1];
  RowMap const rows = row_map_of(call, call.writes[2]);
  expect(call, call.reads[2].shape.rank() == 2, "a map is not [tokens, experts]");
  Shape const choices{rows.tokens, call.reads[2].shape[1]};
  ExpertRange const experts = experts_of(context, call, rows.experts, choices[1]);
  expect_tensor(call, probabilities, element_type<C>(), choices);
  expect_tensor(call, call.reads[2], ElementType::u8, choices);
  Operand const& of_rows = call.writes[1];
  expect_elements(call, of_rows, element_type<C>(), of_rows.shape.elements());
  std::int64_t const made =
      number_rows(rows, experts, static_cast<Choice const*>(call.reads[2].data));
  expect(call, made <= of_rows.shape.elements() && made <= call.writes[0].shape[0],
         "tokens choose more rows than the plan has room for");
  spread_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, rows.experts, [&](std::int64_t token) {
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      elements_of<C>(of_rows)[rows.row(token, j)] =
          elements_of<C>(probabilities)[experts.element(token, rows.expert(token, j))];
    }
  });
}

template <typename S>
void permute_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  RowMap const rows = row_map_of(call, call.reads[2]);
  Operand const& of_rows = call.reads[1];
  Operand const& d_probabilities = call.writes[1];
  expect_elements(call, of_rows, element_type<C>(), call.reads[0].shape[0]);
  expect(call, d_probabilities.shape.rank() == 2, "gradients are not [tokens, experts]");
  std::int64_t const all = d_probabilities.shape[1];
  expect_tensor(call, d_probabilities, element_type<C>(), {rows.tokens, all});
  ExpertRange const experts = experts_of(context, call, rows.experts, all);
  sum_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, rows.experts, [&](std::int64_t token) {
    C* const to = elements_of<C>(d_probabilities);
    std::fill_n(to + token * all, all, C{0});
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      to[experts.element(token, rows.expert(token, j))] =
          elements_of<C>(of_rows)[rows.row(token, j)];
    }
  });
}

}  // namespace

void permute(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { permute_of<decltype(tag)>(context, call); });
}

void permute_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { permute_backward_of<decltype(tag)>(context, call); });
}

void unpermute(KernelContext const& context, KernelCall const& call) {
  RowMap const rows = row_map_of(call, call.reads[1]);
  with_storage_type(call, [&](auto tag) {
    sum_rows<decltype(tag)>(context, call, rows, call.reads[0], call.writes[0]);
  });
}

void unpermute_backward(KernelContext const& context, KernelCall const& call) {
  RowMap const rows = row_map_of(call, call.reads[1]);
  with_storage_type(call, [&](auto tag) {
    spread_rows<decltype(tag)>(context, call, rows, call.reads[0], call.writes[0]);
  });
}

void count_rows(KernelContext const& context, KernelCall const& call) {
  Operand const& map = call.reads[0];
  expect(call, map.shape.rank() == 2, "a map is not [tokens, experts]");
  std::int64_t const own = call.writes[0].shape.elements();
  ExpertRange const experts = experts_of(context, call, own, map.shape[1]);
  expect_tensor(call, map, ElementType::u8, map.shape);
  expect_elements(call, call.writes[0], ElementType::i32, own);
  auto const* const choices = static_cast<Choice const*>(map.data);
  auto* const counts = elements_of<std::int32_t>(call.writes[0]);
  for_row_ranges(*context.pool, own, map.shape[0], [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t expert = begin; expert < end; ++expert) {
      std::int32_t rows = 0;
      for (std::int64_t token = 0; token < map.shape[0]; ++token) {
        if (has_row(choices[experts.element(token, expert)])) ++rows;
      }
      counts[expert] = rows;
    }
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
