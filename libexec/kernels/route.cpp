#include <algorithm>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/exponential.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// What keeps a sum of sigmoids from being zero. Source: Megatron-LM, moe_utils.py.
constexpr double least_sum = 1e-20;

/// Choice j of token i, balanced.
std::int64_t expert_of(std::int64_t token,
                       std::int64_t choice,
                       RoutingAttributes const& routing,
                       std::int64_t experts) {
  return (token * routing.per_token + choice) % experts;
}

/// Whether scores are divided by their sum over the chosen experts after the softmax or sigmoid.
bool divides_by_sum(RoutingAttributes const& routing) {
  if (!routing.normalise) return false;
  return routing.score == RouterScore::sigmoid ? routing.per_token > 1
                                               : routing.order == RouterOrder::before;
}

/// The softmax over the chosen experts, in place of the scores that they had.
bool is_over_chosen(RoutingAttributes const& routing) {
  return routing.score == RouterScore::softmax && routing.order == RouterOrder::after;
}

/// Calls body(expert) for each choice of a token.
template <typename Body>
void for_choices(std::int64_t token,
                 RoutingAttributes const& routing,
                 std::int64_t experts,
                 Body const& body) {
  for (std::int64_t j = 0; j < routing.per_token; ++j) {
    body(expert_of(token, j, routing, experts));
  }
}

/// scores = softmax of the logits over the experts that `visit` calls.
template <typename S, typename Visit>
void softmax_over(S const* logits, Compute<S>* scores, Visit const& visit) {
  using C = Compute<S>;
  C largest = 0;
  bool is_first = true;
  visit([&](std::int64_t e) {
    C const value = widen(logits[e]);
    largest = is_first || value > largest ? value : largest;
    is_first = false;
  });
  C sum = 0;
  visit([&](std::int64_t e) {
    scores[e] = exponential(widen(logits[e]) - largest);
    sum += scores[e];
  });
  visit([&](std::int64_t e) { scores[e] /= sum; });
}

template <typename S>
void route_token(RoutingAttributes const& routing,
                 std::int64_t token,
                 std::int64_t experts,
                 S const* logits,
                 Compute<S>* probabilities,
                 Compute<S>* scores,
                 std::uint8_t* map) {
  using C = Compute<S>;
  std::fill_n(probabilities, experts, C{0});
  std::fill_n(scores, experts, C{0});
  std::fill_n(map, experts, std::uint8_t{0});
  auto const chosen = [&](auto const& body) { for_choices(token, routing, experts, body); };
  auto const all = [&](auto const& body) {
    for (std::int64_t e = 0; e < experts; ++e) body(e);
  };
  if (routing.score == RouterScore::sigmoid) {
    all([&](std::int64_t e) { scores[e] = sigmoid(C{widen(logits[e])}); });
  } else if (is_over_chosen(routing)) {
    softmax_over(logits, scores, chosen);
  } else {
    softmax_over(logits, scores, all);
  }
  C sum = 1;
  if (divides_by_sum(routing)) {
    sum = static_cast<C>(least_sum);
    chosen([&](std::int64_t e) { sum += scores[e]; });
  }
  chosen([&](std::int64_t e) {
    map[e] = 1;
    probabilities[e] = static_cast<C>(routing.scaling) * scores[e] / sum;
  });
}

/// The derivative by logits of what route_token() computes.
template <typename S, typename C>
void route_token_backward(RoutingAttributes const& routing,
                          std::int64_t experts,
                          C const* gradient,
                          C const* scores,
                          std::uint8_t const* map,
                          S* d_logits) {
  C sum = 1;
  C mean = 0;  // of the gradients, by the share of each chosen score
  if (divides_by_sum(routing)) {
    sum = static_cast<C>(least_sum);
    for (std::int64_t e = 0; e < experts; ++e) sum += map[e] != 0 ? scores[e] : C{0};
    for (std::int64_t e = 0; e < experts; ++e) {
      if (map[e] != 0) mean += gradient[e] * scores[e] / sum;
    }
  }
  auto const of_score = [&](std::int64_t e) {
    return map[e] == 0 ? C{0} : static_cast<C>(routing.scaling) * (gradient[e] - mean) / sum;
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

template <typename S>
void route_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const& routing = attributes_of<RoutingAttributes>(call);
  Operand const& logits = call.reads[0];
  expect(call, logits.shape.rank() == 2, "logits are not [tokens, experts]");
  std::int64_t const experts = logits.shape[1];
  expect(call, routing.per_token <= experts, "a token chooses more experts than there are");
  expect_tensor(call, logits, element_type<S>(), logits.shape);
  expect_tensor(call, call.writes[0], element_type<C>(), logits.shape);
  expect_tensor(call, call.writes[1], element_type<C>(), logits.shape);
  expect_tensor(call, call.writes[2], ElementType::u8, logits.shape);
  for_row_ranges(*context.pool, logits.shape[0], experts,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t token = begin; token < end; ++token) {
                     std::int64_t const first = token * experts;
                     route_token<S>(routing, token, experts, elements_of<S>(logits) + first,
                                    elements_of<C>(call.writes[0]) + first,
                                    elements_of<C>(call.writes[1]) + first,
                                    elements_of<std::uint8_t>(call.writes[2]) + first);
                   }
                 });
}

template <typename S>
void route_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const& routing = attributes_of<RoutingAttributes>(call);
  Operand const& d_logits = call.writes[0];
  expect(call, d_logits.shape.rank() == 2, "gradients of logits are not [tokens, experts]");
  std::int64_t const experts = d_logits.shape[1];
  expect_tensor(call, d_logits, element_type<S>(), d_logits.shape);
  expect_tensor(call, call.reads[0], element_type<C>(), d_logits.shape);
  expect_tensor(call, call.reads[1], element_type<C>(), d_logits.shape);
  expect_tensor(call, call.reads[2], ElementType::u8, d_logits.shape);
  for_row_ranges(
      *context.pool, d_logits.shape[0], experts, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t token = begin; token < end; ++token) {
          std::int64_t const first = token * experts;
          route_token_backward<S, C>(routing, experts, elements_of<C>(call.reads[0]) + first,
                                     elements_of<C>(call.reads[1]) + first,
                                     elements_of<std::uint8_t>(call.reads[2]) + first,
                                     elements_of<S>(d_logits) + first);
        }
      });
}

}  // namespace

void route(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { route_of<decltype(tag)>(context, call); });
}

void route_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.writes[0].type,
                    [&](auto tag) { route_backward_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
