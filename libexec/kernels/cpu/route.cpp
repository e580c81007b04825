#include <cstdint>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/router_formulas.hpp"
#include "libexec/kernels/row_ranges.hpp"

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

}  // namespace

void route(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { route_of<decltype(tag)>(context, call); });
}

void route_backward(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call.kind, call.writes[0].type,
                    [&](auto tag) { route_backward_of<decltype(tag)>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
