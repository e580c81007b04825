#pragma once

#include <algorithm>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

// Which rows are those of a token.

/// The rows of each token, as op_kinds.def describes a row_map.
struct RowMap {
  std::int32_t* data = nullptr;
  std::int64_t tokens = 0;
  std::int64_t experts = 0;  ///< experts of the rank; in a rank_map, ranks

  STAGECRAFT_HOST_DEVICE std::int32_t* of(std::int64_t token) const {
    return data + token * (2 * experts + 1);
  }
  STAGECRAFT_HOST_DEVICE std::int32_t& count(std::int64_t token) const {
    return of(token)[2 * experts];
  }
  STAGECRAFT_HOST_DEVICE std::int32_t& row(std::int64_t token, std::int64_t i) const {
    return of(token)[i];
  }
  STAGECRAFT_HOST_DEVICE std::int32_t& expert(std::int64_t token, std::int64_t i) const {
    return of(token)[experts + i];
  }
};

inline RowMap row_map_of(KernelCall const& call, Operand const& operand) {
  expect(call, operand.shape.rank() == 2 && operand.shape[1] % 2 == 1,
         "a row map is not [tokens, 2 experts + 1]");
  expect_tensor(call, operand, ElementType::i32, operand.shape);
  return {elements_of<std::int32_t>(operand), operand.shape[0], operand.shape[1] / 2};
}

/// Elements of a token of a hidden state [s, b, h].
inline std::int64_t width_of(KernelCall const& call, Operand const& x, RowMap const& rows) {
  std::int64_t const width = last_extent(x);
  expect(call, x.shape.elements() == rows.tokens * width, "tokens and row map differ in number");
  return width;
}

/// Expects rows [rows, width], and y of the tokens whose sums they are, or which are copied to
/// them; returns the width.
template <typename S>
std::int64_t expect_rows_of_tokens(KernelCall const& call,
                                   RowMap const& rows,
                                   Operand const& of_rows,
                                   Operand const& of_tokens) {
  std::int64_t const width = width_of(call, of_tokens, rows);
  expect_elements(call, of_rows, element_type<S>(), of_rows.shape.elements());
  expect_elements(call, of_tokens, element_type<S>(), rows.tokens * width);
  return width;
}

// Which experts are those of a rank, and the operands of the kernels that make rows of choices.

/// The experts of a map [tokens, experts] that a rank has: all of them, or its share.
struct ExpertRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t all = 0;

  /// The element of a map or matrix [tokens, experts] of a token's own expert.
  STAGECRAFT_HOST_DEVICE std::int64_t element(std::int64_t token, std::int64_t own) const {
    return token * all + first + own;
  }
};

/// Whether a token has a row of one of the rank's experts.
struct HasRow {
  Choice const* choices = nullptr;
  ExpertRange experts;

  STAGECRAFT_HOST_DEVICE bool operator()(std::int64_t token, std::int64_t own) const {
    return has_row(choices[experts.element(token, own)]);
  }
};

inline ExpertRange experts_of(int expert_rank,
                              KernelCall const& call,
                              std::int64_t count,
                              std::int64_t all) {
  expect(call, count > 0 && all % count == 0, "the experts are not split evenly");
  return {count == all ? 0 : expert_rank * count, count, all};
}

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
  STAGECRAFT_HOST_DEVICE std::int64_t first_of(std::int64_t rank) const {
    return rank / sharers * local;
  }
};

/// Whether a token has a row of one of a rank's experts.
struct GoesToRank {
  Choice const* choices = nullptr;
  ExpertsOfRanks experts;

  STAGECRAFT_HOST_DEVICE bool operator()(std::int64_t token, std::int64_t rank) const {
    Choice const* const of_rank = choices + token * experts.all + experts.first_of(rank);
    for (std::int64_t e = 0; e < experts.local; ++e) {
      if (has_row(of_rank[e])) return true;
    }
    return false;
  }
};

/// Stands for the probability of an expert that a token did not choose.
inline constexpr int not_chosen = -1;

/// What permute and its backward work on.
struct PermuteOperands {
  RowMap rows;
  ExpertRange experts;
  std::int64_t room = 0;  ///< rows that the plan has room for
};

/// Expects the operands of permute.
template <typename S>
PermuteOperands expect_permute(int expert_rank, KernelCall const& call) {
  using C = Compute<S>;
  RowMap const rows = row_map_of(call, call.writes[2]);
  expect(call, call.reads[2].shape.rank() == 2, "a map is not [tokens, experts]");
  Shape const choices{rows.tokens, call.reads[2].shape[1]};
  expect_tensor(call, call.reads[1], element_type<C>(), choices);
  expect_tensor(call, call.reads[2], ElementType::u8, choices);
  Operand const& of_rows = call.writes[1];
  expect_elements(call, of_rows, element_type<C>(), of_rows.shape.elements());
  return {rows, experts_of(expert_rank, call, rows.experts, choices[1]),
          std::min(of_rows.shape.elements(), call.writes[0].shape[0])};
}

/// Expects the operands of permute_backward.
template <typename S>
PermuteOperands expect_permute_backward(int expert_rank, KernelCall const& call) {
  using C = Compute<S>;
  RowMap const rows = row_map_of(call, call.reads[2]);
  Operand const& d_probabilities = call.writes[1];
  expect_elements(call, call.reads[1], element_type<C>(), call.reads[0].shape[0]);
  expect(call, d_probabilities.shape.rank() == 2, "gradients are not [tokens, experts]");
  std::int64_t const all = d_probabilities.shape[1];
  expect_tensor(call, d_probabilities, element_type<C>(), {rows.tokens, all});
  return {rows, experts_of(expert_rank, call, rows.experts, all), call.reads[0].shape[0]};
}

/// Expects the operands of count_rows.
inline ExpertRange expect_count_rows(int expert_rank, KernelCall const& call) {
  Operand const& map = call.reads[0];
  expect(call, map.shape.rank() == 2, "a map is not [tokens, experts]");
  std::int64_t const own = call.writes[0].shape.elements();
  expect_tensor(call, map, ElementType::u8, map.shape);
  expect_elements(call, call.writes[0], ElementType::i32, own);
  return experts_of(expert_rank, call, own, map.shape[1]);
}

/// What spread_tokens and its backward work on.
struct SpreadOperands {
  RowMap rows;
  ExpertsOfRanks experts;
  std::int64_t room = 0;  ///< rows that the plan has room for
};

/// Expects the operands of spread_tokens.
template <typename S>
SpreadOperands expect_spread_tokens(KernelCall const& call) {
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
  return {rows, experts, of_rows.shape[0]};
}

/// Expects the operands of spread_tokens_backward.
template <typename S>
SpreadOperands expect_spread_tokens_backward(KernelCall const& call) {
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
  return {rows, experts, call.reads[0].shape[0]};
}

/// Expects the operands of mark_choices; C is the type of probabilities.
template <typename C>
void expect_mark_choices(KernelCall const& call) {
  Operand const& probabilities = call.reads[0];
  expect(call, probabilities.shape.rank() == 2, "probabilities are not [tokens, experts]");
  expect_tensor(call, probabilities, element_type<C>(), probabilities.shape);
  expect_tensor(call, call.writes[0], ElementType::u8, probabilities.shape);
  expect_elements(call, call.reads[1], ElementType::i32, call.reads[1].shape.elements());
}

}  // namespace stagecraft
