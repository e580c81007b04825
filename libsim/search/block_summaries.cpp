#include "libsim/search/block_summaries.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "libsim/engine/player/block_times.hpp"
#include "libsim/engine/player/pass_pair.hpp"
#include "libsim/memory/message_buffers.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/program/liveness.hpp"
#include "libsim/program/memory_profile.hpp"

namespace stagecraft {
namespace {

TrainingConfig config_of(SearchRequest const& request, ShapeChoice const& shape) {
  TrainingConfig config = request.base;
  config.sharding = fastest_sharding(request);
  config.parallel.tensor = shape.tensor;
  config.parallel.sequence = shape.sequence;
  config.parallel.context = shape.context;
  split_experts(config, shape);
  // The distance between the ranks of a group does not depend on the number of replicas, except for
  // groups that sum counts over the global batch: over fewer replicas that takes no longer.
  config.parallel.data = static_cast<int>(fewest_replicas(shape));
  config.batch.micro = shape.micro;
  return config;
}

}  // namespace

PassSummary& PassSummary::operator+=(PassSummary const& next) {
  picoseconds += next.picoseconds;
  peak = std::max(peak, net + next.peak);
  net += next.net;
  hidable += next.hidable;
  return *this;
}

PassSummary PassSummary::repeated(std::int64_t times) const {
  if (times == 0) return {};
  return {times * picoseconds, times * net, std::max(peak, (times - 1) * net + peak),
          times * hidable};
}

PassSummary summary_of(BlockProgram const& block, Pass pass, CostModel const& cost) {
  MemoryProfile const memory = profile_memory(block, pass);
  PassTimes const times = time_pass(block, pass, cost);
  return {times.duration.count(), memory.net.sum(), memory.peak,
          exchange_time(nodes_of(block.ops(pass), times)).count()};
}

PieceSummary& PieceSummary::operator+=(PieceSummary const& next) {
  forward += next.forward;
  PassSummary back = next.backward;
  back += backward;
  backward = back;
  back = next.input_gradient;
  back += input_gradient;
  input_gradient = back;
  back = next.weight_gradient;
  back += weight_gradient;
  weight_gradient = back;
  return *this;
}

PieceSummary PieceSummary::repeated(std::int64_t times) const {
  return {forward.repeated(times), backward.repeated(times), input_gradient.repeated(times),
          weight_gradient.repeated(times)};
}

std::int64_t PieceSummary::picoseconds() const {
  std::int64_t const split = input_gradient.picoseconds + weight_gradient.picoseconds;
  return forward.picoseconds +
         (split > 0 ? std::min(split, backward.picoseconds) : backward.picoseconds);
}

BlockSummaries::BlockSummaries(SearchRequest const& request,
                               ShapeChoice const& shape,
                               BackwardPasses passes)
    : has_split_{passes == BackwardPasses::split},
      outline_{make_outline(config_of(request, shape))},
      kinds_{outline_.config.model},
      rows_{outline_},
      rank_{rows_.fullest_at_least()},
      cost_{request.system, outline_},
      has_inputs_{outline_.config.model.causal_mask == CausalMask::per_microbatch},
      inputs_{summarize(build_inputs(outline_.shape))},
      embedding_{summarize(build_embedding(outline_.shape))} {}

PieceSummary BlockSummaries::summarize(BlockProgram block) const {
  if (has_split_) split_backward(block);
  auto const pass = [&](Pass which) { return summary_of(block, which, cost_); };
  if (!has_split_) return {pass(Pass::forward), pass(Pass::backward), {}, {}};
  return {pass(Pass::forward), pass(Pass::backward), pass(Pass::input_gradient),
          pass(Pass::weight_gradient)};
}

MessageSizes BlockSummaries::message_sizes() const {
  return {message_buffer_bytes(outline_, MessageBuffer::whole).count(),
          message_buffer_bytes(outline_, MessageBuffer::piece).count()};
}

bool BlockSummaries::GroupOrder::operator()(Group const& a, Group const& b) const {
  if (a.recompute != b.recompute) return a.recompute < b.recompute;
  if (a.kinds.size() != b.kinds.size()) return a.kinds.size() < b.kinds.size();
  return std::ranges::lexicographical_compare(a.kinds, b.kinds);
}

BlockShape BlockSummaries::shape_of(LayerConfig const& kind) {
  BlockShape shape = outline_.shape.with(kind);
  if (!shape.is_uneven() || !kind.experts) return shape;
  ExpertRows const least = rows_.least(rank_, kind);
  least.set_room(shape);
  outline_.programs.expert_rows.push_back(least.of_experts);
  return shape;
}

void BlockSummaries::let_cost_least(BlockProgram& block) {
  if (!outline_.config.routing.is_forced()) return;
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    for (Op& op : block.ops(pass)) {
      auto* const gemm = std::get_if<GemmAttributes>(&op.attributes);
      if (gemm != nullptr && gemm->rows != nullptr && gemm->sums_rows()) {
        GroupRows shared = *gemm->rows;
        shared.front() /= std::ssize(shared);
        outline_.programs.expert_rows.push_back(
            std::make_shared<GroupRows const>(std::move(shared)));
        gemm->rows = outline_.programs.expert_rows.back().get();
      }
    }
  }
}

RecomputePolicy BlockSummaries::settled_policy(PolicyCode code) const {
  return settled_with_stack(policy_of(code), outline_.config.stack);
}

PieceSummary const& BlockSummaries::group(std::span<int const> kinds, PolicyCode recompute) {
  if (recompute.kind == RecomputeKind::uniform)
    recompute.layers = static_cast<std::int32_t>(kinds.size());
  auto const [place, is_new] = groups_.try_emplace({recompute, kinds});
  if (is_new) {
    std::vector<BlockShape> layers;
    for (int const kind : kinds) layers.push_back(shape_of(kinds_[kind]));
    BlockProgram block = build_layers(std::move(layers), settled_policy(recompute));
    let_cost_least(block);
    place->second = summarize(std::move(block));
  }
  return place->second;
}

PieceSummary const& BlockSummaries::head(HeadWeight weight, PolicyCode recompute) {
  bool const has_policy = outline_.config.model.predicted_tokens > 0;
  if (recompute.kind != RecomputeKind::modules) recompute.layers = 1;
  Head const key{weight, has_policy ? recompute : PolicyCode{}};
  auto const [place, is_new] = heads_.try_emplace(key);
  if (is_new) {
    std::vector<BlockShape> shapes = head_shapes(outline_.shape);
    for (std::size_t m = 1; m < shapes.size(); ++m) {
      shapes[m] = shape_of(kinds_.of_layer(outline_.config.model.layers - 1));
    }
    BlockProgram block = build_head(std::move(shapes), weight, settled_policy(key.recompute));
    let_cost_least(block);
    place->second = summarize(std::move(block));
  }
  return place->second;
}

/// Appends layers in groups of `size`; the last group may be smaller.
void BlockSummaries::add_groups(PieceSummary& piece,
                                std::span<int const> kinds,
                                std::int64_t size,
                                PolicyCode recompute) {
  auto const step = static_cast<std::size_t>(size);
  while (!kinds.empty()) {
    std::span<int const> const first = kinds.first(std::min(step, kinds.size()));
    std::int64_t times = 0;
    if (kinds_.are_alike()) {
      times = static_cast<std::int64_t>(kinds.size() / first.size());
      kinds = kinds.last(kinds.size() % first.size());
    } else {
      do {
        kinds = kinds.subspan(first.size());
        ++times;
      } while (kinds.size() >= first.size() &&
               std::ranges::equal(kinds.first(first.size()), first));
    }
    piece += group(first, recompute).repeated(times);
  }
}

PieceSummary BlockSummaries::layers(ChunkContent const& content, PolicyCode policy) {
  std::span<int const> const kinds = kinds_.of_layers(content.first_layer, content.layers);
  PieceSummary piece;
  switch (policy.kind) {
    case RecomputeKind::uniform:
      add_groups(piece, kinds, policy.layers, policy);
      break;
    case RecomputeKind::block: {
      auto const checkpointed =
          static_cast<std::size_t>(std::min<std::int64_t>(content.layers, policy.layers));
      add_groups(piece, kinds.first(checkpointed), 1, {RecomputeKind::uniform, 1});
      add_groups(piece, kinds.subspan(checkpointed), 1, {});
      break;
    }
    default:
      add_groups(piece, kinds, 1, policy);
  }
  return piece;
}

PieceSummary BlockSummaries::whole_model() {
  ModelConfig const& model = outline_.config.model;
  ChunkContent const whole{.first_layer = 0,
                           .layers = model.layers,
                           .has_embedding = true,
                           .has_head = true,
                           .shares_embedding = true};
  return chunk(whole, {RecomputeKind::none, 0});
}

PieceSummary BlockSummaries::chunk(ChunkContent const& content, PolicyCode policy) {
  PieceSummary piece;
  if (has_inputs_) piece += inputs_;
  if (content.has_embedding) piece += embedding_;
  piece += layers(content, policy);
  if (content.has_head) {
    // If a stage has both ends, the tied weight exists only once.
    bool const is_shared = content.shares_embedding && embeds_at_end(outline_.config.model);
    piece += head(is_shared ? HeadWeight::shared : HeadWeight::own, policy);
  }
  return piece;
}

}  // namespace stagecraft
