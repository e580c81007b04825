#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {

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
