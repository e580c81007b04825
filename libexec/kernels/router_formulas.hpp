#pragma once

#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libsim/program/forced_routing.hpp"

/// What a router makes of the logits of one token, and the operand checks of its kernels.
namespace stagecraft {

/// What keeps a sum of sigmoids from being zero. Source: Megatron-LM, moe_utils.py.
inline constexpr double least_sum = 1e-20;

/// Marks the choices of a token, balanced: choice j of token i is expert (i k + j) mod E.
STAGECRAFT_HOST_DEVICE inline void spread_choices(RoutingAttributes const& routing,
                                                  std::int64_t token,
                                                  std::int64_t experts,
                                                  Choice* choices) {
  for (std::int64_t j = 0; j < routing.per_token; ++j) {
    choices[(token * routing.per_token + j) % experts] = Choice::chosen;
  }
}

/// The choices of a rank's tokens that a plan forces.
struct ForcedChoices {
  ForcedSlots slots{};  ///< without ends if nothing is forced
  SequencePart sequence{};
  std::int64_t micro = 1;
  std::int64_t rows = 0;       ///< rows of the sequence on all ranks of the tensor group
  std::int64_t first_row = 0;  ///< the first of these rows that this rank has

  STAGECRAFT_HOST_DEVICE bool exist() const { return slots.ends != nullptr; }
  /// Marks the choices of a token of the rank.
  STAGECRAFT_HOST_DEVICE void mark(std::int64_t token, Choice* choices) const {
    std::int64_t const row = sequence.row_of(first_row + token / micro, rows);
    for (std::int64_t j = 0; j < slots.per_token; ++j) {
      choices[slots.expert_of(row * micro + token % micro, j)] = Choice::chosen;
    }
  }
};

/// No choice is forced unless the attributes say so. `tokens` are those of the rank.
inline ForcedChoices forced_choices(int tensor_rank,
                                    SequencePart const& sequence,
                                    KernelCall const& call,
                                    std::int64_t tokens) {
  auto const& routing = attributes_of<RoutingAttributes>(call);
  ForcedChoices choices{.sequence = sequence};
  if (routing.forced == nullptr) return choices;
  ForcedCounts const& counts = routing.forced->of(
      call.draw.layer, BatchMicrobatchId{static_cast<int>(call.draw.microbatch)});
  choices.slots = counts.slots();
  choices.micro = routing.micro;
  choices.rows = tokens / choices.micro * routing.shards;
  choices.first_row = routing.shards > 1 ? tensor_rank * (tokens / choices.micro) : 0;
  expect(call,
         tokens % choices.micro == 0 &&
             choices.rows * choices.micro * sequence.ranks == counts.tokens(),
         "the counts are of another number of tokens");
  return choices;
}

/// Whether scores are divided by their sum over the chosen experts after the softmax or sigmoid.
STAGECRAFT_HOST_DEVICE inline bool divides_by_sum(RoutingAttributes const& routing) {
  if (!routing.normalise) return false;
  return routing.score == RouterScore::sigmoid ? routing.per_token > 1
                                               : routing.order == RouterOrder::before;
}

/// The softmax over the chosen experts, in place of the scores that they had.
STAGECRAFT_HOST_DEVICE inline bool is_over_chosen(RoutingAttributes const& routing) {
  return routing.score == RouterScore::softmax && routing.order == RouterOrder::after;
}

/// values = softmax of the values of the experts that `visit` calls.
template <typename C, typename Visit>
STAGECRAFT_HOST_DEVICE void softmax_over(C* values, Visit const& visit) {
  C largest = 0;
  bool is_first = true;
  visit([&](std::int64_t e) {
    largest = is_first || values[e] > largest ? values[e] : largest;
    is_first = false;
  });
  C sum = 0;
  visit([&](std::int64_t e) {
    values[e] = exponential(values[e] - largest);
    sum += values[e];
  });
  visit([&](std::int64_t e) { values[e] /= sum; });
}

/// Chooses the experts of a token; scores and probabilities are not zero for these alone.
template <typename S>
STAGECRAFT_HOST_DEVICE void route_token(RoutingAttributes const& routing,
                                        ForcedChoices const& forced,
                                        std::int64_t token,
                                        std::int64_t experts,
                                        S const* logits,
                                        Compute<S>* probabilities,
                                        Compute<S>* scores,
                                        Choice* choices) {
  using C = Compute<S>;
  auto const all = [&](auto const& body) {
    for (std::int64_t e = 0; e < experts; ++e) body(e);
  };
  auto const chosen = [&](auto const& body) {
    all([&](std::int64_t e) {
      if (choices[e] == Choice::chosen) body(e);
    });
  };
  all([&](std::int64_t e) { scores[e] = widen(logits[e]); });
  if (routing.score == RouterScore::sigmoid) {
    all([&](std::int64_t e) { scores[e] = sigmoid(scores[e]); });
  } else if (!is_over_chosen(routing)) {
    softmax_over(scores, all);
  }
  all([&](std::int64_t e) { choices[e] = Choice::none; });
  if (forced.exist()) {
    forced.mark(token, choices);
  } else if (routing.is_by_router()) {
    choose_experts(routing, experts, scores, choices);
  } else {
    spread_choices(routing, token, experts, choices);
  }
  if (is_over_chosen(routing)) {
    softmax_over(scores, chosen);
    all([&](std::int64_t e) {
      if (choices[e] != Choice::chosen) scores[e] = 0;
    });
  }
  C sum = 1;
  if (divides_by_sum(routing)) {
    sum = static_cast<C>(least_sum);
    chosen([&](std::int64_t e) { sum += scores[e]; });
  }
  all([&](std::int64_t e) { probabilities[e] = 0; });
  chosen([&](std::int64_t e) {
    probabilities[e] = static_cast<C>(routing.scaling) * scores[e] / sum;
  });
}

/// The derivative by logits of what route_token() computes. Choices that were dropped have no
/// gradient of their own, but are part of the sum.
template <typename S, typename C>
STAGECRAFT_HOST_DEVICE void route_token_backward(RoutingAttributes const& routing,
                                                 std::int64_t experts,
                                                 C const* gradient,
                                                 C const* scores,
                                                 Choice const* choices,
                                                 S* d_logits) {
  C sum = 1;
  C mean = 0;  // of the gradients, by the share of each chosen score
  if (divides_by_sum(routing)) {
    sum = static_cast<C>(least_sum);
    for (std::int64_t e = 0; e < experts; ++e) sum += is_chosen(choices[e]) ? scores[e] : C{0};
    for (std::int64_t e = 0; e < experts; ++e) {
      if (choices[e] == Choice::chosen) mean += gradient[e] * scores[e] / sum;
    }
  }
  auto const of_score = [&](std::int64_t e) {
    if (!is_chosen(choices[e])) return C{0};
    C const own = choices[e] == Choice::chosen ? gradient[e] : C{0};
    return static_cast<C>(routing.scaling) * (own - mean) / sum;
  };
  if (routing.score == RouterScore::sigmoid) {
    for (std::int64_t e = 0; e < experts; ++e) {
      d_logits[e] = narrow<S>(of_score(e) * scores[e] * (C{1} - scores[e]));
    }
    return;
  }
  C inner = 0;
  for (std::int64_t e = 0; e < experts; ++e) inner += of_score(e) * scores[e];
  for (std::int64_t e = 0; e < experts; ++e) {
    d_logits[e] = narrow<S>(scores[e] * (of_score(e) - inner));
  }
}

/// The extents of logits, or of gradients of logits.
inline MapSize expect_logits_of_tokens(KernelCall const& call, Operand const& logits) {
  expect(call, logits.shape.rank() == 2, "logits are not [tokens, experts]");
  return {logits.shape[0], logits.shape[1]};
}

/// Expects the operands of route.
template <typename S>
MapSize expect_route(KernelCall const& call) {
  using C = Compute<S>;
  auto const& routing = attributes_of<RoutingAttributes>(call);
  Operand const& logits = call.reads[0];
  MapSize const size = expect_logits_of_tokens(call, logits);
  expect(call, routing.per_token <= size.experts, "a token chooses more experts than there are");
  expect(call, routing.expert_rows <= size.tokens,
         "an expert takes more rows than there are tokens");
  expect_tensor(call, logits, element_type<S>(), logits.shape);
  expect_tensor(call, call.writes[0], element_type<C>(), logits.shape);
  expect_tensor(call, call.writes[1], element_type<C>(), logits.shape);
  expect_tensor(call, call.writes[2], ElementType::u8, logits.shape);
  return size;
}

/// Expects the operands of route_backward.
template <typename S>
MapSize expect_route_backward(KernelCall const& call) {
  using C = Compute<S>;
  Operand const& d_logits = call.writes[0];
  MapSize const size = expect_logits_of_tokens(call, d_logits);
  expect_tensor(call, d_logits, element_type<S>(), d_logits.shape);
  expect_tensor(call, call.reads[0], element_type<C>(), d_logits.shape);
  expect_tensor(call, call.reads[1], element_type<C>(), d_logits.shape);
  expect_tensor(call, call.reads[2], ElementType::u8, d_logits.shape);
  return size;
}

}  // namespace stagecraft
