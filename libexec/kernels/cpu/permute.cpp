#include <algorithm>
#include <cstdint>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"
#include "libexec/kernels/token_choices.hpp"
#include "libexec/kernels/token_rows.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Fills the map, expert by expert; returns the number of rows.
std::int64_t number_rows(RowMap const& rows, HasRow const& has) {
  for (std::int64_t token = 0; token < rows.tokens; ++token) {
    std::fill_n(rows.of(token), 2 * rows.experts + 1, 0);
  }
  std::int64_t next = 0;
  for (std::int64_t expert = 0; expert < rows.experts; ++expert) {
    for (std::int64_t token = 0; token < rows.tokens; ++token) {
      if (!has(token, expert)) continue;
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
  PermuteOperands const all = expect_permute<S>(context.expert_rank, call);
  RowMap const& rows = all.rows;
  ExpertRange const& experts = all.experts;
  C const* const probabilities = elements_of<C>(call.reads[1]);
  C* const of_rows = elements_of<C>(call.writes[1]);
  std::int64_t const made =
      number_rows(rows, {static_cast<Choice const*>(call.reads[2].data), experts});
  expect(call, made <= all.room, "tokens choose more rows than the plan has room for");
  spread_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, rows.experts, [&](std::int64_t token) {
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      of_rows[rows.row(token, j)] = probabilities[experts.element(token, rows.expert(token, j))];
    }
  });
}

template <typename S>
void permute_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  PermuteOperands const operands = expect_permute_backward<S>(context.expert_rank, call);
  RowMap const& rows = operands.rows;
  ExpertRange const& experts = operands.experts;
  std::int64_t const all = experts.all;
  C const* const of_rows = elements_of<C>(call.reads[1]);
  C* const to = elements_of<C>(call.writes[1]);
  sum_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, rows.experts, [&](std::int64_t token) {
    std::fill_n(to + token * all, all, C{0});
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      to[experts.element(token, rows.expert(token, j))] = of_rows[rows.row(token, j)];
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
  ExpertRange const experts = expect_count_rows(context.expert_rank, call);
  HasRow const has{static_cast<Choice const*>(call.reads[0].data), experts};
  std::int64_t const tokens = call.reads[0].shape[0];
  auto* const counts = elements_of<std::int32_t>(call.writes[0]);
  for_row_ranges(*context.pool, experts.count, tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t expert = begin; expert < end; ++expert) {
      std::int32_t rows = 0;
      for (std::int64_t token = 0; token < tokens; ++token) {
        if (has(token, expert)) ++rows;
      }
      counts[expert] = rows;
    }
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
