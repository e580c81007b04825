#include "libsim/search/block_summaries.hpp"

#include <algorithm>

#include "libsim/engine/block_times.hpp"
#include "libsim/model/memory_profile.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {
namespace {

TrainingConfig config_of(SearchRequest const& request, ShapeChoice const& shape) {
  TrainingConfig config = request.base;
  config.parallel.tensor = shape.tensor;
  config.parallel.sequence = shape.sequence;
  config.batch.micro = shape.micro;
  return config;
}

}  // namespace

PassSummary& PassSummary::operator+=(PassSummary const& next) {
  picoseconds += next.picoseconds;
  peak = std::max(peak, net + next.peak);
  net += next.net;
  return *this;
}

PassSummary PassSummary::repeated(std::int64_t times) const {
  if (times == 0) return {};
  return {times * picoseconds, times * net, std::max(peak, (times - 1) * net + peak)};
}

PieceSummary& PieceSummary::operator+=(PieceSummary const& next) {
  forward += next.forward;
  PassSummary back = next.backward;
  back += backward;
  backward = back;
  return *this;
}

PieceSummary PieceSummary::repeated(std::int64_t times) const {
  return {forward.repeated(times), backward.repeated(times)};
}

BlockSummaries::BlockSummaries(SearchRequest const& request, ShapeChoice const& shape)
    : outline_{make_outline(config_of(request, shape))},
      cost_{request.system, outline_},
      has_inputs_{outline_.config.model.causal_mask == CausalMask::per_microbatch},
      inputs_{summarize(build_inputs(outline_.shape))},
      embedding_{summarize(build_embedding(outline_.shape))},
      head_{summarize(build_head(outline_.shape, HeadWeight::own))},
      shared_head_{summarize(build_head(outline_.shape, HeadWeight::shared))} {}

PieceSummary BlockSummaries::summarize(BlockProgram const& block) const {
  auto const pass = [&](Pass which) {
    MemoryProfile const memory = profile_memory(block, which);
    return PassSummary{time_pass(block, which, cost_).duration.count(), memory.net.sum(),
                       memory.peak};
  };
  return {pass(Pass::forward), pass(Pass::backward)};
}

PieceSummary const& BlockSummaries::group(int layers, RecomputeKind kind) {
  auto const [place, is_new] = groups_.try_emplace({kind, layers});
  if (is_new) {
    place->second = summarize(build_layers(
        outline_.shape, layers, policy_of(PolicyCode{kind, static_cast<std::int16_t>(layers)})));
  }
  return place->second;
}

PieceSummary BlockSummaries::layers(std::int64_t count, PolicyCode policy) {
  std::int64_t const size = policy.layers;
  switch (policy.kind) {
    case RecomputeKind::uniform: {
      PieceSummary piece = group(policy.layers, policy.kind).repeated(count / size);
      if (count % size != 0) piece += group(static_cast<int>(count % size), policy.kind);
      return piece;
    }
    case RecomputeKind::block: {
      std::int64_t const checkpointed = std::min(count, size);
      PieceSummary piece = group(1, RecomputeKind::uniform).repeated(checkpointed);
      return piece += group(1, RecomputeKind::none).repeated(count - checkpointed);
    }
    default:
      return group(1, policy.kind).repeated(count);
  }
}

PieceSummary BlockSummaries::chunk(std::int64_t count, PolicyCode policy, ChunkEnds ends) {
  PieceSummary piece;
  if (has_inputs_) piece += inputs_;
  if (ends.embedding) piece += embedding_;
  if (count > 0) piece += layers(count, policy);
  if (ends.head) piece += ends.head_shares_weight ? shared_head_ : head_;
  return piece;
}

}  // namespace stagecraft
