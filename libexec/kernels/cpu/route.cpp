#include <algorithm>
#include <cstdint>
#include <cstring>

#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/router_formulas.hpp"
#include "libexec/kernels/router_tokens.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

template <typename S>
void route_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const& routing = attributes_of<RoutingAttributes>(call);
  MapSize const size = expect_route<S>(call);
  std::int64_t const experts = size.experts;
  S const* const logits = elements_of<S>(call.reads[0]);
  C* const probabilities = elements_of<C>(call.writes[0]);
  C* const scores = elements_of<C>(call.writes[1]);
  auto* const choices = static_cast<Choice*>(call.writes[2].data);
  ForcedChoices const forced =
      forced_choices(context.tensor_rank, context.sequence, call, size.tokens);
  for_row_ranges(*context.pool, size.tokens, experts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      std::int64_t const first = token * experts;
      route_token<S>(routing, forced, token, experts, logits + first, probabilities + first,
                     scores + first, choices + first);
    }
  });
  if (routing.expert_rows == 0) return;
  for_row_ranges(*context.pool, experts, size.tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t expert = begin; expert < end; ++expert) {
      limit_expert(size, routing, probabilities + expert, choices + expert,
                   [](std::int64_t token) { return token; });
    }
  });
}

template <typename S>
void route_backward_of(KernelContext const& context, KernelCall const& call) {
  using C = Compute<S>;
  auto const& routing = attributes_of<RoutingAttributes>(call);
  MapSize const size = expect_route_backward<S>(call);
  std::int64_t const experts = size.experts;
  for_row_ranges(*context.pool, size.tokens, experts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      std::int64_t const first = token * experts;
      route_token_backward<S>(routing, experts, elements_of<C>(call.reads[0]) + first,
                              elements_of<C>(call.reads[1]) + first,
                              static_cast<Choice const*>(call.reads[2].data) + first,
                              elements_of<S>(call.writes[0]) + first);
    }
  });
}

template <typename C>
void limit_choices_of(KernelContext const& context, KernelCall const& call) {
  auto const& routing = attributes_of<RoutingAttributes>(call);
  LimitedChoices const all = expect_limit_choices<C>(context.tensor_rank, context.sequence, call);
  auto* const choices = static_cast<Choice*>(call.writes[0].data);
  for_row_ranges(*context.pool, all.size.experts, all.size.tokens,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t expert = begin; expert < end; ++expert) {
                     limit_expert(all.size, routing, elements_of<C>(call.reads[0]) + expert,
                                  choices + expert, all.place_of);
                   }
                 });
  std::memcpy(call.writes[1].data, choices + all.first_own, static_cast<std::size_t>(all.own));
}

template <typename S>
void count(KernelCall const& call) {
  using C = Compute<S>;
  RouterTokens<S> const all{call, 0};
  std::int64_t const sequences = all.losses.sequences;
  C* const counts = expect_choice_counts(call, all);
  std::fill_n(counts, sequences * all.experts, C{0});
  for (std::int64_t token = 0; token < all.tokens; ++token) {
    for_counted_choices(all, token, [&](std::int64_t expert) {
      counts[token % sequences * all.experts + expert] += 1;
    });
  }
}

template <typename S>
void sum_losses(KernelCall const& call) {
  using C = Compute<S>;
  RouterTokens<S> const all{call, 0};
  C* const loss = expect_router_loss(call, all);
  double sum = 0;
  for (std::int64_t token = 0; token < all.tokens; ++token) sum += loss_of_token(all, token);
  *loss = static_cast<C>(sum);
}

template <typename C>
void average(KernelCall const& call) {
  ChoiceCounter<C> const all{call};
  C const microbatches = all.counter[all.experts] += 1;
  for (std::int64_t expert = 0; expert < all.experts; ++expert) all.add(expert, microbatches);
}

template <typename T, typename S>
void add_gradients(KernelContext const& context, KernelCall const& call) {
  RouterTokens<S> const all{call, 1};
  auto const weight = static_cast<Compute<S>>(call.loss_gradient);
  T* const d_logits = expect_logit_gradients<T>(call, all);
  for_row_ranges(*context.pool, all.tokens, all.experts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      add_loss_gradients(all, token, weight, d_logits + token * all.experts);
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

void limit_choices(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call,
                    [&](auto tag) { limit_choices_of<Compute<decltype(tag)>>(context, call); });
}

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
  with_gradient_types(call, [&](auto gradient, auto logit) {
    add_gradients<decltype(gradient), decltype(logit)>(context, call);
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
