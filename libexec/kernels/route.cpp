#include <algorithm>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/exponential.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"
#include "libsim/model/forced_routing.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// What keeps a sum of sigmoids from being zero. Source: Megatron-LM, moe_utils.py.
constexpr double least_sum = 1e-20;

/// Marks the choices of a token, balanced: choice j of token i is expert (i k + j) mod E.
void spread_choices(RoutingAttributes const& routing,
                    std::int64_t token,
                    std::int64_t experts,
                    Choice* choices) {
  for (std::int64_t j = 0; j < routing.per_token; ++j) {
    choices[(token * routing.per_token + j) % experts] = Choice::chosen;
  }
}

/// The choices of a rank's tokens that a plan forces.
class ForcedChoices {
 public:
  /// No choice is forced unless the attributes say so. `tokens` are those of the rank.
  ForcedChoices(KernelContext const& context, KernelCall const& call, std::int64_t tokens)
      : sequence_{context.sequence} {
    auto const& routing = attributes_of<RoutingAttributes>(call);
    if (routing.forced == nullptr) return;
    counts_ = &routing.forced->of(call.draw.layer,
                                  BatchMicrobatchId{static_cast<int>(call.draw.microbatch)});
    micro_ = routing.micro;
    rows_ = tokens / micro_ * routing.shards;
    first_row_ = routing.shards > 1 ? context.tensor_rank * (tokens / micro_) : 0;
    expect(call, tokens % micro_ == 0 && rows_ * micro_ * sequence_.ranks == counts_->tokens(),
           "the counts are of another number of tokens");
  }

  bool exist() const { return counts_ != nullptr; }
  /// Marks the choices of a token of the rank.
  void mark(std::int64_t token, Choice* choices) const {
    std::int64_t const row = sequence_.row_of(first_row_ + token / micro_, rows_);
    for (std::int64_t j = 0; j < counts_->per_token(); ++j) {
      choices[counts_->expert_of(row * micro_ + token % micro_, j)] = Choice::chosen;
    }
  }

 private:
  SequencePart sequence_;
  ForcedCounts const* counts_ = nullptr;
  std::int64_t micro_ = 1;
  std::int64_t rows_ = 0;       ///< of the sequence, on the ranks of the tensor group together
  std::int64_t first_row_ = 0;  ///< of them, this rank's
};

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

/// values = softmax of the values of the experts that `visit` calls.
template <typename C, typename Visit>
void softmax_over(C* values, Visit const& visit) {
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
void route_token(RoutingAttributes const& routing,
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
  std::fill_n(choices, experts, Choice::none);
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
  std::fill_n(probabilities, experts, C{0});
  chosen([&](std::int64_t e) {
    probabilities[e] = static_cast<C>(routing.scaling) * scores[e] / sum;
  });
}

/// The derivative by logits of what route_token() computes. Choices that were dropped have no
/// gradient of their own, but are part of the sum.
template <typename S, typename C>
void route_token_backward(RoutingAttributes const& routing,
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

template <typename S>
void route_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const& routing = attributes_of<RoutingAttributes>(call);
  Operand const& logits = call.reads[0];
  expect(call, logits.shape.rank() == 2, "logits are not [tokens, experts]");
  std::int64_t const experts = logits.shape[1];
  std::int64_t const tokens = logits.shape[0];
  expect(call, routing.per_token <= experts, "a token chooses more experts than there are");
  expect(call, routing.expert_rows <= tokens, "an expert takes more rows than there are tokens");
  expect_tensor(call, logits, element_type<S>(), logits.shape);
  expect_tensor(call, call.writes[0], element_type<C>(), logits.shape);
  expect_tensor(call, call.writes[1], element_type<C>(), logits.shape);
  expect_tensor(call, call.writes[2], ElementType::u8, logits.shape);
  C* const probabilities = elements_of<C>(call.writes[0]);
  auto* const choices = static_cast<Choice*>(call.writes[2].data);
  ForcedChoices const forced{context, call, tokens};
  for_row_ranges(*context.pool, tokens, experts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      std::int64_t const first = token * experts;
      route_token<S>(routing, forced, token, experts, elements_of<S>(logits) + first,
                     probabilities + first, elements_of<C>(call.writes[1]) + first,
                     choices + first);
    }
  });
  if (routing.expert_rows == 0) return;
  for_row_ranges(*context.pool, experts, tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t expert = begin; expert < end; ++expert) {
      limit_expert({tokens, experts}, routing, probabilities + expert, choices + expert,
                   [](std::int64_t token) { return token; });
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
                                     static_cast<Choice const*>(call.reads[2].data) + first,
                                     elements_of<S>(d_logits) + first);
        }
      });
}

}  // namespace

void route(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { route_of<decltype(tag)>(context, call); });
}

void route_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.writes[0].type,
                    [&](auto tag) { route_backward_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
