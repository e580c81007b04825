#include <algorithm>
#include <cstdint>
#include <numeric>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"
#include "libexec/kernels/token_choices.hpp"
#include "libexec/kernels/token_rows.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Fills the map and the counts, rank by rank; returns the number of rows.
std::int64_t number_tokens(RowMap const& rows, GoesToRank const& goes, std::int32_t* counts) {
  for (std::int64_t token = 0; token < rows.tokens; ++token) {
    std::fill_n(rows.of(token), 2 * rows.experts + 1, 0);
  }
  std::int64_t next = 0;
  for (std::int64_t rank = 0; rank < rows.experts; ++rank) {
    std::int64_t const first = next;
    for (std::int64_t token = 0; token < rows.tokens; ++token) {
      if (!goes(token, rank)) continue;
      std::int32_t const i = rows.count(token)++;
      rows.row(token, i) = static_cast<std::int32_t>(next++);
      rows.expert(token, i) = static_cast<std::int32_t>(rank);
    }
    counts[rank] = static_cast<std::int32_t>(next - first);
  }
  return next;
}

template <typename S>
void spread_tokens_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  SpreadOperands const operands = expect_spread_tokens<S>(call);
  RowMap const& rows = operands.rows;
  ExpertsOfRanks const& experts = operands.experts;
  C const* const probabilities = elements_of<C>(call.reads[1]);
  C* const of_rows = elements_of<C>(call.writes[1]);
  auto const* const map = static_cast<Choice const*>(call.reads[2].data);
  std::int64_t const made =
      number_tokens(rows, {map, experts}, elements_of<std::int32_t>(call.writes[3]));
  expect(call, made <= operands.room, "tokens go to more ranks than the plan has room for");
  spread_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, experts.all, [&](std::int64_t token) {
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      std::int64_t const first = token * experts.all + experts.first_of(rows.expert(token, j));
      C* const to = of_rows + rows.row(token, j) * experts.local;
      for (std::int64_t e = 0; e < experts.local; ++e) {
        to[e] = has_row(map[first + e]) ? probabilities[first + e] : C{not_chosen};
      }
    }
  });
}

template <typename S>
void spread_tokens_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  SpreadOperands const operands = expect_spread_tokens_backward<S>(call);
  RowMap const& rows = operands.rows;
  ExpertsOfRanks const& experts = operands.experts;
  sum_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, experts.all, [&](std::int64_t token) {
    C* const to = elements_of<C>(call.writes[1]) + token * experts.all;
    std::fill_n(to, experts.all, C{0});
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      C const* const of_row = elements_of<C>(call.reads[1]) + rows.row(token, j) * experts.local;
      C* const of_rank = to + experts.first_of(rows.expert(token, j));
      for (std::int64_t e = 0; e < experts.local; ++e) of_rank[e] += of_row[e];
    }
  });
}

template <typename C>
void mark_choices_of(KernelContext const& context, KernelCall const& call) {
  expect_mark_choices<C>(call);
  Operand const& probabilities = call.reads[0];
  Operand const& counts = call.reads[1];
  std::int64_t const local = probabilities.shape[1];
  auto const* const count = elements_of<std::int32_t>(counts);
  std::int64_t const arrived =
      std::accumulate(count, count + counts.shape.elements(), std::int64_t{0});
  expect(call, arrived <= probabilities.shape[0], "more tokens arrive than the plan has room for");
  auto* const choices = static_cast<Choice*>(call.writes[0].data);
  for_row_ranges(
      *context.pool, probabilities.shape[0], local, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * local; i < end * local; ++i) {
          bool const is_chosen = i < arrived * local && elements_of<C>(probabilities)[i] >= 0;
          choices[i] = is_chosen ? Choice::chosen : Choice::none;
        }
      });
}

}  // namespace

void spread_tokens(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { spread_tokens_of<decltype(tag)>(context, call); });
}

void spread_tokens_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { spread_tokens_backward_of<decltype(tag)>(context, call); });
}

void mark_choices(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { mark_choices_of<Compute<decltype(tag)>>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
