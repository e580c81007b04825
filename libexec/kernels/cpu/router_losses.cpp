#include <algorithm>
#include <cstdint>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/router_tokens.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

template <typename S>
void count(KernelCall const& call) {
  using C = Compute<S>;
  RouterTokens<S> const all{call, 0};
  std::int64_t const sequences = all.losses.sequences;
  expect_elements(call, call.writes[0], element_type<C>(), sequences * all.experts);
  C* const counts = elements_of<C>(call.writes[0]);
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
  expect_elements(call, call.writes[0], element_type<C>(), 1);
  double sum = 0;
  for (std::int64_t token = 0; token < all.tokens; ++token) sum += loss_of_token(all, token);
  elements_of<C>(call.writes[0])[0] = static_cast<C>(sum);
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
  expect_elements(call, call.writes[0], element_type<T>(), all.tokens * all.experts);
  auto const weight = static_cast<Compute<S>>(call.loss_gradient);
  T* const d_logits = elements_of<T>(call.writes[0]);
  for_row_ranges(*context.pool, all.tokens, all.experts, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      add_loss_gradients(all, token, weight, d_logits + token * all.experts);
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
  with_gradient_types(call, [&](auto gradient, auto logit) {
    add_gradients<decltype(gradient), decltype(logit)>(context, call);
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
