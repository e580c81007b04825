#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/token_choices.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Calls body(token) for all tokens, concurrently.
template <typename Body>
void for_tokens(KernelContext const& context,
                RowMap const& rows,
                std::int64_t width,
                Body const& body) {
  for_row_ranges(*context.pool, rows.tokens, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) body(token);
  });
}

/// y[token] = sum of the token's rows, in the order of their experts.
template <typename S>
void sum_rows(KernelContext const& context,
              KernelCall const& call,
              RowMap const& rows,
              Operand const& from,
              Operand const& y) {
  using C = Compute<S>;
  std::int64_t const width = expect_rows_of_tokens<S>(call, rows, from, y);
  for_tokens(context, rows, width, [&](std::int64_t token) {
    S* const to = elements_of<S>(y) + token * width;
    std::int32_t const count = rows.count(token);
    for (std::int64_t i = 0; i < width; ++i) {
      C sum = 0;
      for (std::int32_t j = 0; j < count; ++j) {
        sum += widen(elements_of<S>(from)[rows.row(token, j) * width + i]);
      }
      to[i] = narrow<S>(sum);
    }
  });
}

/// Copies each token to all of its rows.
template <typename S>
void spread_rows(KernelContext const& context,
                 KernelCall const& call,
                 RowMap const& rows,
                 Operand const& x,
                 Operand const& to) {
  std::int64_t const width = expect_rows_of_tokens<S>(call, rows, to, x);
  for_tokens(context, rows, width, [&](std::int64_t token) {
    S const* const from = elements_of<S>(x) + token * width;
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      std::memcpy(elements_of<S>(to) + rows.row(token, j) * width, from,
                  static_cast<std::size_t>(width) * sizeof(S));
    }
  });
}

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
