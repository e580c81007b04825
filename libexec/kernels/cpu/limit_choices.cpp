#include <cstdint>
#include <cstring>

#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/limited_choices.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

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

}  // namespace

void limit_choices(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call,
                    [&](auto tag) { limit_choices_of<Compute<decltype(tag)>>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
