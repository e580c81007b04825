#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libsim/program/context_parallel.hpp"
#include "libsim/program/op_attributes.hpp"

namespace stagecraft {

// Which experts tokens choose, and which of these choices become rows.

/// What an element of a map [tokens, experts] says.
enum class Choice : std::uint8_t {
  none,
  chosen,
  dropped,  ///< chosen, but the expert's rows were taken by tokens of higher probability
  padding,  ///< not chosen: a row that the expert computes and nobody uses
};

STAGECRAFT_HOST_DEVICE constexpr bool has_row(Choice choice) {
  return choice == Choice::chosen || choice == Choice::padding;
}
STAGECRAFT_HOST_DEVICE constexpr bool is_chosen(Choice choice) {
  return choice == Choice::chosen || choice == Choice::dropped;
}

/// The next of `count` items in falling order of value_of(i); of equal items the lower comes first.
/// Pre: `last` is -1 for the first item, or what the call before returned, and is not the last of
/// all.
template <typename ValueOf>
STAGECRAFT_HOST_DEVICE std::int64_t next_best(std::int64_t count,
                                              std::int64_t last,
                                              ValueOf const& value_of) {
  std::int64_t best = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    auto const value = value_of(i);
    bool const is_left =
        last < 0 || value < value_of(last) || (value == value_of(last) && i > last);
    if (is_left && (best < 0 || value > value_of(best))) best = i;
  }
  return best;
}

/// Marks the experts that a token chooses: those of highest value in the groups of experts whose
/// best values have the highest sums.
/// Source: Megatron-LM, megatron/core/transformer/moe/moe_utils.py, group_limited_topk.
template <typename C>
STAGECRAFT_HOST_DEVICE void choose_experts(RoutingAttributes const& routing,
                                           std::int64_t experts,
                                           C const* values,
                                           Choice* choices) {
  std::int64_t const size = experts / routing.groups;
  auto const sum_of_best = [&](std::int64_t group) {
    auto const value_of = [&](std::int64_t i) { return values[group * size + i]; };
    C sum = 0;
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < routing.per_token / routing.groups_per_token; ++i) {
      last = next_best(size, last, value_of);
      sum += value_of(last);
    }
    return sum;
  };
  // Until the choice is made, padding marks the experts of groups that take part.
  std::int64_t group = -1;
  for (std::int64_t i = 0; i < routing.groups_per_token; ++i) {
    group = next_best(routing.groups, group, sum_of_best);
    for (std::int64_t e = group * size; e < (group + 1) * size; ++e) choices[e] = Choice::padding;
  }
  for (std::int64_t i = 0; i < routing.per_token; ++i) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < experts; ++e) {
      if (choices[e] == Choice::padding && (best < 0 || values[e] > values[best])) best = e;
    }
    choices[best] = Choice::chosen;
  }
  for (std::int64_t e = 0; e < experts; ++e) {
    if (choices[e] == Choice::padding) choices[e] = Choice::none;
  }
}

/// The extents of a map.
struct MapSize {
  std::int64_t tokens = 0;
  std::int64_t experts = 0;
};

/// The rows of a microbatch's tokens in a matrix that is gathered from all ranks, in the order of
/// ranks. Tokens of the `micro` sequences alternate.
struct GatheredTokens {
  SequencePart sequence{};
  std::int64_t micro = 1;
  std::int64_t rows = 0;  ///< of each sequence on a rank that splits it

  STAGECRAFT_HOST_DEVICE constexpr std::int64_t operator()(std::int64_t token) const {
    return sequence.gathered_row(token / micro, rows) * micro + token % micro;
  }
};

/// A token that chose an expert, the `index`-th of its microbatch.
template <typename C>
struct Claim {
  std::int64_t index = 0;
  C probability = 0;
};

/// Whether `one` of two choices is dropped before the `other` if their expert takes fewer rows. By
/// probability, the lower one is dropped first, and the later token's if both are equal; by
/// position, the later token's.
/// Source: Megatron-LM, moe_utils.py, apply_router_token_dropping, policies "probs" and "position".
template <typename C>
STAGECRAFT_HOST_DEVICE constexpr bool is_dropped_first(DropBy drop,
                                                       Claim<C> const& one,
                                                       Claim<C> const& other) {
  bool const is_later = one.index > other.index;
  if (drop == DropBy::position || one.probability == other.probability) return is_later;
  return one.probability < other.probability;
}

/// Gives an expert, a column of both matrices, at most as many rows as it takes: drops choices as
/// is_dropped_first() orders them; and pads with the first tokens that did not choose it, if the
/// attributes say so. place_of(i) is the row of token i in the matrices.
template <typename C, typename PlaceOf>
void limit_expert(MapSize const& size,
                  RoutingAttributes const& routing,
                  C const* probabilities,
                  Choice* choices,
                  PlaceOf const& place_of) {
  std::int64_t const tokens = size.tokens;
  std::int64_t const experts = size.experts;
  std::int64_t const rows = routing.expert_rows;
  auto const choice = [&](std::int64_t i) -> Choice& { return choices[place_of(i) * experts]; };
  auto const claim = [&](std::int64_t i) {
    return Claim<C>{i, probabilities[place_of(i) * experts]};
  };
  std::int64_t taken = 0;
  for (std::int64_t i = 0; i < tokens; ++i) taken += choice(i) == Choice::chosen ? 1 : 0;
  for (; taken > rows; --taken) {
    std::int64_t worst = -1;
    for (std::int64_t i = 0; i < tokens; ++i) {
      if (choice(i) != Choice::chosen) continue;
      if (worst < 0 || is_dropped_first(routing.drop, claim(i), claim(worst))) worst = i;
    }
    choice(worst) = Choice::dropped;
  }
  for (std::int64_t i = 0; routing.pads && i < tokens && taken < rows; ++i) {
    if (choice(i) != Choice::none) continue;
    choice(i) = Choice::padding;
    ++taken;
  }
}

/// The choices of a microbatch, of all ranks that have tokens of it, which limit_choices limits.
struct LimitedChoices {
  MapSize size;
  GatheredTokens place_of;
  std::int64_t first_own = 0;  ///< the first element of the map that is this rank's
  std::int64_t own = 0;        ///< elements of this rank's map
};

/// Expects the operands of limit_choices; C is the type of probabilities.
template <typename C>
LimitedChoices expect_limit_choices(int tensor_rank,
                                    SequencePart const& sequence,
                                    KernelCall const& call) {
  auto const& routing = attributes_of<RoutingAttributes>(call);
  Operand const& probabilities = call.reads[0];
  Operand const& map = call.writes[1];
  expect(call, probabilities.shape.rank() == 2 && map.shape.rank() == 2,
         "probabilities or a map are not [tokens, experts]");
  std::int64_t const tokens = probabilities.shape[0];
  std::int64_t const experts = probabilities.shape[1];
  std::int64_t const own = map.shape[0];
  expect_tensor(call, probabilities, element_type<C>(), probabilities.shape);
  expect_tensor(call, call.writes[0], ElementType::u8, probabilities.shape);
  expect_tensor(call, map, ElementType::u8, {own, experts});
  expect(call, routing.expert_rows > 0 && routing.expert_rows <= tokens,
         "an expert takes no rows, or more than there are tokens");
  std::int64_t const parts = std::int64_t{sequence.ranks} * routing.shards;
  expect(call, own * parts == tokens && tokens % (routing.micro * sequence.ranks) == 0,
         "the ranks' choices are not all of a microbatch");
  std::int64_t const part =
      std::int64_t{sequence.rank} * routing.shards + (routing.shards > 1 ? tensor_rank : 0);
  return {.size = {tokens, experts},
          .place_of = {sequence, routing.micro, tokens / routing.micro / sequence.ranks},
          .first_own = part * own * experts,
          .own = own * experts};
}

}  // namespace stagecraft
