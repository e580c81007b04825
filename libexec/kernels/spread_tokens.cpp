#include <algorithm>
#include <cstdint>
#include <numeric>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_map.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Stands for the probability of an expert that a token did not choose.
constexpr int not_chosen = -1;

/// The experts of each of the ranks that tokens go to. As many neighbouring ranks as share the
/// weights of experts have the same ones.
struct ExpertsOfRanks {
  std::int64_t local = 0;  ///< of one rank
  std::int64_t all = 0;
  std::int64_t sharers = 1;

  ExpertsOfRanks(KernelCall const& call,
                 std::int64_t ranks,
                 std::int64_t of_rank,
                 std::int64_t count)
      : local{of_rank}, all{count}, sharers{ranks * of_rank / count} {
    expect(call, sharers > 0 && sharers * count == ranks * of_rank,
           "the experts are not split evenly");
  }
  std::int64_t first_of(std::int64_t rank) const { return rank / sharers * local; }
};

/// Fills the map and the counts, rank by rank; returns the number of rows.
std::int64_t number_tokens(RowMap const& rows,
                           ExpertsOfRanks const& experts,
                           Choice const* choices,
                           std::int32_t* counts) {
  for (std::int64_t token = 0; token < rows.tokens; ++token) {
    std::fill_n(rows.of(token), 2 * rows.experts + 1, 0);
  }
  std::int64_t next = 0;
  for (std::int64_t rank = 0; rank < rows.experts; ++rank) {
    std::int64_t const first = next;
    for (std::int64_t token = 0; token < rows.tokens; ++token) {
      Choice const* const of_rank = choices + token * experts.all + experts.first_of(rank);
      if (std::none_of(of_rank, of_rank + experts.local, has_row)) continue;
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
  Operand const& probabilities = call.reads[1];
  Operand const& of_rows = call.writes[1];
  RowMap const rows = row_map_of(call, call.writes[2]);
  expect(call, probabilities.shape.rank() == 2 && of_rows.shape.rank() == 2,
         "probabilities are not [tokens, experts]");
  std::int64_t const local = of_rows.shape[1];
  ExpertsOfRanks const experts{call, rows.experts, local, probabilities.shape[1]};
  Shape const choices{rows.tokens, experts.all};
  expect_tensor(call, probabilities, element_type<C>(), choices);
  expect_tensor(call, call.reads[2], ElementType::u8, choices);
  expect_tensor(call, of_rows, element_type<C>(), {call.writes[0].shape[0], local});
  expect_elements(call, call.writes[3], ElementType::i32, rows.experts);
  auto const* const map = static_cast<Choice const*>(call.reads[2].data);
  std::int64_t const made =
      number_tokens(rows, experts, map, elements_of<std::int32_t>(call.writes[3]));
  expect(call, made <= of_rows.shape[0], "tokens go to more ranks than the plan has room for");
  spread_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, experts.all, [&](std::int64_t token) {
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      std::int64_t const first = token * experts.all + experts.first_of(rows.expert(token, j));
      C* const to = elements_of<C>(of_rows) + rows.row(token, j) * local;
      for (std::int64_t e = 0; e < local; ++e) {
        to[e] = has_row(map[first + e]) ? elements_of<C>(probabilities)[first + e] : C{not_chosen};
      }
    }
  });
}

template <typename S>
void spread_tokens_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  RowMap const rows = row_map_of(call, call.reads[2]);
  Operand const& of_rows = call.reads[1];
  expect(call, of_rows.shape.rank() == 2, "gradients of rows are not [rows, experts]");
  std::int64_t const local = of_rows.shape[1];
  expect(call, call.writes[1].shape.rank() == 2, "gradients are not [tokens, experts]");
  std::int64_t const all = call.writes[1].shape[1];
  ExpertsOfRanks const experts{call, rows.experts, local, all};
  expect_tensor(call, of_rows, element_type<C>(), {call.reads[0].shape[0], local});
  expect_tensor(call, call.writes[1], element_type<C>(), {rows.tokens, all});
  sum_rows<S>(context, call, rows, call.reads[0], call.writes[0]);
  for_tokens(context, rows, all, [&](std::int64_t token) {
    C* const to = elements_of<C>(call.writes[1]) + token * all;
    std::fill_n(to, all, C{0});
    for (std::int32_t j = 0; j < rows.count(token); ++j) {
      C const* const of_row = elements_of<C>(of_rows) + rows.row(token, j) * local;
      C* const of_rank = to + experts.first_of(rows.expert(token, j));
      for (std::int64_t e = 0; e < local; ++e) of_rank[e] += of_row[e];
    }
  });
}

template <typename C>
void mark_choices_of(KernelContext const& context, KernelCall const& call) {
  Operand const& probabilities = call.reads[0];
  expect(call, probabilities.shape.rank() == 2, "probabilities are not [tokens, experts]");
  std::int64_t const local = probabilities.shape[1];
  expect_tensor(call, probabilities, element_type<C>(), probabilities.shape);
  expect_tensor(call, call.writes[0], ElementType::u8, probabilities.shape);
  Operand const& counts = call.reads[1];
  expect_elements(call, counts, ElementType::i32, counts.shape.elements());
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
