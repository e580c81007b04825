#include <cstdint>
#include <cstring>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/expert_choice.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

template <typename C>
void limit_choices_of(KernelContext const& context, KernelCall const& call) {
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
  SequencePart const& sequence = context.sequence;
  std::int64_t const parts = std::int64_t{sequence.ranks} * routing.shards;
  expect(call, own * parts == tokens && tokens % (routing.micro * sequence.ranks) == 0,
         "the ranks' choices are not all of a microbatch");
  std::int64_t const rows = tokens / routing.micro / sequence.ranks;
  auto* const choices = static_cast<Choice*>(call.writes[0].data);
  auto const place_of = [&](std::int64_t token) {
    return sequence.gathered_row(token / routing.micro, rows) * routing.micro +
           token % routing.micro;
  };
  for_row_ranges(*context.pool, experts, tokens, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t expert = begin; expert < end; ++expert) {
      limit_expert({tokens, experts}, routing, elements_of<C>(probabilities) + expert,
                   choices + expert, place_of);
    }
  });
  std::int64_t const part =
      std::int64_t{sequence.rank} * routing.shards + (routing.shards > 1 ? context.tensor_rank : 0);
  std::memcpy(map.data, choices + part * own * experts, static_cast<std::size_t>(own * experts));
}

}  // namespace

void limit_choices(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call,
                    [&](auto tag) { limit_choices_of<Compute<decltype(tag)>>(context, call); });
}

}  // namespace stagecraft::STAGECRAFT_ISA
