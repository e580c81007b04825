#include <algorithm>
#include <cmath>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/exponential.hpp"
#include "libexec/kernels/formulas.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// What the losses read of a token.
template <typename S>
class TokenScores {
 public:
  using C = Compute<S>;

  TokenScores(RouterLossAttributes const& losses, std::int64_t experts, S const* logits)
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
  C log_sum() const { return largest_ + std::log(exponentials_); }
  /// Its derivative by a logit.
  C softmax(std::int64_t e) const {
    return exponential(C{widen(logits_[e])} - largest_) / exponentials_;
  }
  /// An expert's share of the token's scores. Sigmoids are divided by their sum, except that of a
  /// single choice.
  /// Source: Megatron-LM, moe_utils.py: compute_routing_scores_for_aux_loss.
  C share(std::int64_t e) const { return score(e) / sum_; }
  bool is_divided() const { return is_divided_; }
  /// The derivative of an expert's score by its logit, over the sum of scores.
  C slope(std::int64_t e) const { return is_sigmoid_ ? share(e) * (C{1} - score(e)) : share(e); }

 private:
  C score(std::int64_t e) const {
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
    expect_elements(call, of_counts, element_type<C>(), losses.sequences * experts);
    counts = elements_of<C>(of_counts);
  }

  /// The derivative of the loss by an expert's share of a token's scores. Tokens [s, b] of several
  /// sequences alternate.
  C by_share(std::int64_t token, std::int64_t expert) const {
    if (counts == nullptr) return 0;
    std::int64_t const tokens_together = losses.tokens * losses.replicas / losses.sequences;
    auto const together = static_cast<double>(tokens_together);
    auto const factor = static_cast<C>(losses.balance * static_cast<double>(experts) /
                                       (static_cast<double>(losses.per_token) * together *
                                        together * static_cast<double>(losses.sequences)));
    return factor * counts[token % losses.sequences * experts + expert];
  }
  C size_factor() const { return static_cast<C>(losses.size / static_cast<double>(losses.tokens)); }
};

template <typename S>
void count(KernelCall const& call) {
  using C = Compute<S>;
  RouterTokens<S> const all{call, 0};
  RouterLossAttributes const& losses = all.losses;
  expect_elements(call, call.writes[0], element_type<C>(), losses.sequences * all.experts);
  C* const counts = elements_of<C>(call.writes[0]);
  std::fill_n(counts, losses.sequences * all.experts, C{0});
  for (std::int64_t token = 0; token < all.tokens; ++token) {
    S const* const logits = all.logits + token * all.experts;
    auto const value_of = [&](std::int64_t e) { return C{widen(logits[e])}; };
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < losses.per_token; ++i) {
      last = next_best(all.experts, last, value_of);
      counts[token % losses.sequences * all.experts + last] += 1;
    }
  }
}

template <typename S>
void sum_losses(KernelCall const& call) {
  using C = Compute<S>;
  RouterTokens<S> const all{call, 0};
  expect_elements(call, call.writes[0], element_type<C>(), 1);
  double sum = 0;
  for (std::int64_t token = 0; token < all.tokens; ++token) {
    TokenScores<S> const scores{all.losses, all.experts, all.logits + token * all.experts};
    C of_token = all.size_factor() * scores.log_sum() * scores.log_sum();
    for (std::int64_t e = 0; all.counts != nullptr && e < all.experts; ++e) {
      of_token += all.by_share(token, e) * scores.share(e);
    }
    sum += of_token;
  }
  elements_of<C>(call.writes[0])[0] = static_cast<C>(sum);
}

/// C is the type of counts.
template <typename C>
void average(KernelCall const& call) {
  Operand const& of_counts = call.reads[0];
  std::int64_t const experts = of_counts.shape.elements();
  expect_elements(call, of_counts, element_type<C>(), experts);
  expect_elements(call, call.writes[0], element_type<C>(), experts + 1);
  expect_elements(call, call.writes[1], element_type<C>(), experts);
  C const* const counts = elements_of<C>(of_counts);
  C* const counter = elements_of<C>(call.writes[0]);
  C* const mean = elements_of<C>(call.writes[1]);
  C const microbatches = counter[experts] += 1;
  for (std::int64_t e = 0; e < experts; ++e) {
    counter[e] += counts[e];
    mean[e] = counter[e] / microbatches;
  }
}

/// Gradients of logits are of the model's type T, logits of S.
template <typename T, typename S>
void add_gradients(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  RouterTokens<S> const all{call, 1};
  Operand const& gradient = call.writes[0];
  expect_elements(call, gradient, element_type<T>(), all.tokens * all.experts);
  auto const weight = static_cast<C>(call.loss_gradient);
  for_row_ranges(*context.pool, all.tokens, all.experts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      TokenScores<S> const scores{all.losses, all.experts, all.logits + token * all.experts};
      T* const d_logits = elements_of<T>(gradient) + token * all.experts;
      C mean = 0;
      for (std::int64_t e = 0; scores.is_divided() && e < all.experts; ++e) {
        mean += all.by_share(token, e) * scores.share(e);
      }
      C const by_log_sum = 2 * all.size_factor() * scores.log_sum();
      for (std::int64_t e = 0; e < all.experts; ++e) {
        C const d =
            scores.slope(e) * (all.by_share(token, e) - mean) + by_log_sum * scores.softmax(e);
        d_logits[e] = narrow<T>(C{widen(d_logits[e])} + weight * d);
      }
    }
  });
}

}  // namespace

void count_choices(KernelContext const& /*context*/, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type, [&](auto tag) { count<decltype(tag)>(call); });
}

void average_choices(KernelContext const& /*context*/, KernelCall const& call) {
  call.reads[0].type == ElementType::f64 ? average<double>(call) : average<float>(call);
}

void router_loss(KernelContext const& /*context*/, KernelCall const& call) {
  with_storage_type(call.kind, call.reads[0].type,
                    [&](auto tag) { sum_losses<decltype(tag)>(call); });
}

void router_loss_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.writes[0].type, [&](auto narrow_tag) {
    using T = decltype(narrow_tag);
    if (call.reads[1].type == element_type<T>()) {
      add_gradients<T, T>(context, call);
    } else {
      add_gradients<T, Compute<T>>(context, call);
    }
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
