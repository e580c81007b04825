#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/host_device.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

/// The losses of routers, token by token, and the operands of their kernels.
namespace stagecraft {

/// What the losses read of a token.
template <typename S>
class TokenScores {
 public:
  using C = Compute<S>;

  STAGECRAFT_HOST_DEVICE TokenScores(RouterLossAttributes const& losses,
                                     std::int64_t experts,
                                     S const* logits)
      : logits_{logits},
        is_sigmoid_{losses.score == RouterScore::sigmoid},
        is_divided_{!is_sigmoid_ || losses.per_token > 1},
        largest_{widen(logits[0])} {
    for (std::int64_t e = 1; e < experts; ++e) largest_ = std::max(largest_, C{widen(logits[e])});
    for (std::int64_t e = 0; e < experts; ++e) {
      exponentials_ += exponential(C{widen(logits[e])} - largest_);
    }
    sum_ = exponentials_;
    if (!is_sigmoid_) return;
    sum_ = is_divided_ ? C{0} : C{1};
    for (std::int64_t e = 0; is_divided_ && e < experts; ++e) sum_ += score(e);
  }

  /// The logarithm of the sum of the logits' exponentials.
  STAGECRAFT_HOST_DEVICE C log_sum() const { return largest_ + std::log(exponentials_); }
  /// Its derivative by a logit.
  STAGECRAFT_HOST_DEVICE C softmax(std::int64_t e) const {
    return exponential(C{widen(logits_[e])} - largest_) / exponentials_;
  }
  /// An expert's share of the token's scores. Sigmoids are divided by their sum, except that of a
  /// single choice.
  /// Source: Megatron-LM, moe_utils.py: compute_routing_scores_for_aux_loss.
  STAGECRAFT_HOST_DEVICE C share(std::int64_t e) const { return score(e) / sum_; }
  STAGECRAFT_HOST_DEVICE bool is_divided() const { return is_divided_; }
  /// The derivative of an expert's score by its logit, over the sum of scores.
  STAGECRAFT_HOST_DEVICE C slope(std::int64_t e) const {
    return is_sigmoid_ ? share(e) * (C{1} - score(e)) : share(e);
  }

 private:
  STAGECRAFT_HOST_DEVICE C score(std::int64_t e) const {
    C const logit = widen(logits_[e]);
    return is_sigmoid_ ? sigmoid(logit) : exponential(logit - largest_);
  }

  S const* logits_;
  bool is_sigmoid_;
  bool is_divided_;
  C largest_;
  C exponentials_ = 0;
  C sum_ = 0;  ///< that scores are divided by
};

/// The logits of a call by token, and the counts that hold for each.
template <typename S>
struct RouterTokens {
  using C = Compute<S>;
  RouterLossAttributes losses;
  std::int64_t tokens;
  std::int64_t experts;
  S const* logits;
  C const* counts;

  RouterTokens(KernelCall const& call, std::size_t logits_index)
      : losses{attributes_of<RouterLossAttributes>(call)},
        tokens{call.reads[logits_index].shape[0]},
        experts{call.reads[logits_index].shape[1]},
        logits{elements_of<S>(call.reads[logits_index])},
        counts{nullptr} {
    Operand const& of_logits = call.reads[logits_index];
    expect(call, of_logits.shape.rank() == 2, "logits are not [tokens, experts]");
    expect_tensor(call, of_logits, element_type<S>(), of_logits.shape);
    expect(call, tokens % losses.sequences == 0, "sequences differ in their tokens");
    if (losses.balance == 0) return;
    if (call.reads.size() <= logits_index + 1) return;  // they are written
    Operand const& of_counts = call.reads[logits_index + 1];
    counts = expect_elements<C>(call, of_counts, losses.sequences * experts);
  }

  /// The derivative of the loss by an expert's share of a token's scores. Tokens [s, b] of several
  /// sequences alternate.
  STAGECRAFT_HOST_DEVICE C by_share(std::int64_t token, std::int64_t expert) const {
    if (counts == nullptr) return 0;
    std::int64_t const tokens_together = losses.tokens * losses.replicas / losses.sequences;
    auto const together = static_cast<double>(tokens_together);
    auto const factor = static_cast<C>(losses.balance * static_cast<double>(experts) /
                                       (static_cast<double>(losses.per_token) * together *
                                        together * static_cast<double>(losses.sequences)));
    return factor * counts[token % losses.sequences * experts + expert];
  }
  STAGECRAFT_HOST_DEVICE C size_factor() const {
    return static_cast<C>(losses.size / static_cast<double>(losses.tokens));
  }
};

/// Expects the counts [sequences, experts] that count_choices writes.
template <typename S>
Compute<S>* expect_choice_counts(KernelCall const& call, RouterTokens<S> const& all) {
  return expect_elements<Compute<S>>(call, call.writes[0], all.losses.sequences * all.experts);
}

/// Expects the number that router_loss writes.
template <typename S>
Compute<S>* expect_router_loss(KernelCall const& call, RouterTokens<S> const& /*all*/) {
  return expect_elements<Compute<S>>(call, call.writes[0], 1);
}

/// Expects the gradients [tokens, experts] that router_loss_backward adds to.
template <typename T, typename S>
T* expect_logit_gradients(KernelCall const& call, RouterTokens<S> const& all) {
  return expect_elements<T>(call, call.writes[0], all.tokens * all.experts);
}

/// Calls body(expert) for the choices of a token that the losses count: its highest logits, of
/// equal ones those of lower experts.
template <typename S, typename Body>
STAGECRAFT_HOST_DEVICE void for_counted_choices(RouterTokens<S> const& all,
                                                std::int64_t token,
                                                Body const& body) {
  S const* const logits = all.logits + token * all.experts;
  auto const value_of = [&](std::int64_t e) { return Compute<S>{widen(logits[e])}; };
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < all.losses.per_token; ++i) {
    last = next_best(all.experts, last, value_of);
    body(last);
  }
}

/// What a token adds to the losses.
template <typename S>
STAGECRAFT_HOST_DEVICE Compute<S> loss_of_token(RouterTokens<S> const& all, std::int64_t token) {
  TokenScores<S> const scores{all.losses, all.experts, all.logits + token * all.experts};
  Compute<S> loss = all.size_factor() * scores.log_sum() * scores.log_sum();
  for (std::int64_t e = 0; all.counts != nullptr && e < all.experts; ++e) {
    loss += all.by_share(token, e) * scores.share(e);
  }
  return loss;
}

/// Adds the gradients of the losses, times `weight`, to those of a token's logits.
template <typename T, typename S>
STAGECRAFT_HOST_DEVICE void add_loss_gradients(RouterTokens<S> const& all,
                                               std::int64_t token,
                                               Compute<S> weight,
                                               T* d_logits) {
  using C = Compute<S>;
  TokenScores<S> const scores{all.losses, all.experts, all.logits + token * all.experts};
  C mean = 0;
  for (std::int64_t e = 0; scores.is_divided() && e < all.experts; ++e) {
    mean += all.by_share(token, e) * scores.share(e);
  }
  C const by_log_sum = 2 * all.size_factor() * scores.log_sum();
  for (std::int64_t e = 0; e < all.experts; ++e) {
    C const d = scores.slope(e) * (all.by_share(token, e) - mean) + by_log_sum * scores.softmax(e);
    d_logits[e] = narrow<T>(C{widen(d_logits[e])} + weight * d);
  }
}

/// The operands of average_choices; C is their type.
template <typename C>
struct ChoiceCounter {
  std::int64_t experts;
  C const* counts;
  C* counter;  ///< of each expert, then the number of microbatches
  C* mean;

  explicit ChoiceCounter(KernelCall const& call)
      : experts{call.reads[0].shape.elements()},
        counts{elements_of<C>(call.reads[0])},
        counter{elements_of<C>(call.writes[0])},
        mean{elements_of<C>(call.writes[1])} {
    expect_elements(call, call.reads[0], element_type<C>(), experts);
    expect_elements(call, call.writes[0], element_type<C>(), experts + 1);
    expect_elements(call, call.writes[1], element_type<C>(), experts);
  }

  STAGECRAFT_HOST_DEVICE void add(std::int64_t expert, C microbatches) const {
    counter[expert] += counts[expert];
    mean[expert] = counter[expert] / microbatches;
  }
};

/// Calls body(T{}, S{}) for router_loss_backward, whose gradients are of the model's type T and
/// whose logits are of S.
template <typename Body>
void with_gradient_types(KernelCall const& call, Body const& body) {
  with_storage_type(call.kind, call.writes[0].type, [&](auto narrow_tag) {
    using T = decltype(narrow_tag);
    if (call.reads[1].type == element_type<T>()) {
      body(T{}, T{});
    } else {
      body(T{}, Compute<T>{});
    }
  });
}

}  // namespace stagecraft
