#include "libsim/search/recompute_choice.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/rank_programs.hpp"
#include "libsim/plan/received_rows.hpp"
#include "libsim/program/forced_routing.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t most_that_differ = 3;  // microbatches: see unit_passes()

}  // namespace

UnitSummaries::UnitSummaries(SearchRequest const& request,
                             Arrangement const& arrangement,
                             Sharding sharding)
    : request_{request},
      config_{make_config(request, arrangement, {RecomputePolicy{}}, sharding)},
      microbatches_{microbatches(config_)} {
  auto const forced = forced_routing(config_);
  if (forced && forced->depends_on_microbatch()) return;
  config_.batch.global =
      std::min(microbatches_, most_that_differ) * config_.parallel.data * config_.batch.micro;
}

PassSummary UnitSummaries::iteration(PolicyCode policy) {
  bool const is_part = policy.kind == RecomputeKind::block;
  ByMicrobatch const& checkpointed =
      passes_of(is_part ? PolicyCode{RecomputeKind::uniform, 1} : policy);
  ByMicrobatch const& stored = is_part ? passes_of({RecomputeKind::none, 0}) : checkpointed;
  // The first layer follows the embedding, and inputs that each microbatch may have.
  std::size_t const before =
      stored.front().size() - 1 - static_cast<std::size_t>(config_.model.layers);
  std::size_t const end = before + (is_part ? static_cast<std::size_t>(policy.layers) : 0);
  PassSummary sum;
  for (std::size_t k = 0; k < stored.size(); ++k) {
    auto const block = [&](std::size_t position) -> BlockPasses const& {
      return (position < end ? checkpointed : stored)[k][position];
    };
    std::size_t const blocks = stored[k].size();
    PassSummary microbatch;
    for (std::size_t i = 0; i < blocks; ++i) microbatch += block(i).forward;
    for (std::size_t i = blocks; i-- > 0;) microbatch += block(i).backward;
    bool const is_between = k == 1 && std::cmp_equal(stored.size(), most_that_differ);
    sum += is_between ? microbatch.repeated(microbatches_ - 2) : microbatch;
  }
  return sum;
}

UnitSummaries::ByMicrobatch const& UnitSummaries::passes_of(PolicyCode policy) {
  auto const [place, is_new] = known_.try_emplace(policy);
  if (is_new) place->second = made_passes(policy);
  return place->second;
}

UnitSummaries::ByMicrobatch UnitSummaries::made_passes(PolicyCode policy) {
  TrainingConfig config = config_;
  config.recompute = {policy_of(policy)};
  TrainingPlan const plan = make_programs(config);
  CostModel const cost{request_.system, plan};
  ReceivedRows const rows{plan};
  // A rank with all experts computes all choices of its own tokens.
  bool const may_differ = plan.differs_by_rank() && config.parallel.expert > 1;
  differ_ = may_differ && rows.distinct_ranks().size() > 1;
  auto const passes_of_blocks = [&](Programs const& programs) {
    std::vector<BlockPasses> blocks;
    blocks.reserve(programs.blocks.size());
    for (BlockProgram const& block : programs.blocks) {
      blocks.push_back(
          {summary_of(block, Pass::forward, cost), summary_of(block, Pass::backward, cost)});
    }
    ByMicrobatch passes;
    for (ChunkProgram const& chunk : programs.chunks) {
      std::vector<BlockPasses>& of_microbatch = passes.emplace_back();
      for (std::int32_t const block : chunk.blocks) {
        of_microbatch.push_back(blocks[static_cast<std::size_t>(block)]);
      }
    }
    return passes;
  };
  ByMicrobatch passes = passes_of_blocks(plan.programs);
  if (!differ_) return passes;
  // The plan's programs have room for the most rows of any rank, which no rank need have.
  ByMicrobatch timed =
      std::exchange(passes, passes_of_blocks(*RankPrograms{plan, rows.fullest_at_least()}));
  for (std::size_t k = 0; k < passes.size(); ++k) {
    for (std::size_t i = 0; i < passes[k].size(); ++i) {
      passes[k][i].forward.picoseconds = timed[k][i].forward.picoseconds;
      passes[k][i].backward.picoseconds = timed[k][i].backward.picoseconds;
    }
  }
  return passes;
}

RecomputeChoices::RecomputeChoices(Arrangement const& arrangement,
                                   ArrangedStages contents,
                                   BlockSummaries& blocks,
                                   std::vector<StageMoments> const& moments,
                                   MessageSizes const& sizes,
                                   std::int64_t microbatches,
                                   std::span<PolicyCode const> modules)
    : is_exact_{blocks.are_exact()},
      stages_{arrangement.schedule.pipeline},
      chunks_{arrangement.schedule.cuts()},
      microbatches_{microbatches},
      shares_{arrangement.shares},
      contents_{std::move(contents)},
      moments_{moments},
      sizes_{sizes} {
  policies_ = uniform_policies(largest_chunk(arrangement), modules);
  for (StageContent const& stage : contents_.distinct()) {
    for (PolicyCode const policy : policies_) {
      StageLoad& made = loads_.emplace_back();
      for (ChunkContent const& chunk : stage.distinct) {
        made.push_back(blocks.chunk(chunk, policy));
        // The argument of StageMoments::peak() depends on this.
        if (made.back().forward.net < 0 || made.back().held_for_weights() < 0) {
          throw std::logic_error{"a chunk's pass frees more than is kept"};
        }
      }
      SimTime& sum = times_.emplace_back(0);
      SimTime& hidable = hidable_.emplace_back(0);
      for (int const chunk : stage.of_chunk) {
        PieceSummary const& piece = made[static_cast<std::size_t>(chunk)];
        sum += SimTime{piece.picoseconds()};
        hidable += SimTime{piece.hidable()};
      }
    }
  }
  held_.reserve(static_cast<std::size_t>(stages_) * policies_.size());
  for (StageId const stage : stage_ids()) {
    for (std::size_t policy = 0; policy < policies_.size(); ++policy) {
      held_.emplace_back(moments_[stage.index()].peak(load(stage, policy), sizes_));
    }
  }
}

RecomputeChoices::RecomputeChoices(Arrangement const& arrangement,
                                   ArrangedStages contents,
                                   UnitSummaries& units,
                                   std::span<PolicyCode const> modules)
    : is_exact_{false},
      stages_{1},
      chunks_{1},
      microbatches_{1},
      shares_{arrangement.shares},
      contents_{std::move(contents)},
      policies_{unit_policies(arrangement.shares.first, modules)} {
  for (PolicyCode const policy : policies_) {
    PassSummary const iteration = units.iteration(policy);
    loads_.emplace_back(1);
    times_.emplace_back(iteration.picoseconds);
    hidable_.emplace_back(0);
    held_.emplace_back(iteration.peak);
  }
  is_exact_ = units.are_exact();
}

std::optional<std::size_t> RecomputeChoices::least_recompute(StageId stage, Bytes room) const {
  std::optional<std::size_t> least;
  for (std::size_t policy = 0; policy < policies_.size(); ++policy) {
    if (!may_have(stage, policy, room)) continue;
    if (!least || time(stage, policy) < time(stage, *least)) least = policy;
  }
  return least;
}

std::vector<std::size_t> RecomputeChoices::by_time(StageId stage, Bytes room) const {
  std::vector<std::size_t> fitting;
  for (std::size_t policy = 0; policy < policies_.size(); ++policy) {
    if (may_have(stage, policy, room)) fitting.push_back(policy);
  }
  std::ranges::stable_sort(fitting, {}, [&](std::size_t policy) { return time(stage, policy); });
  return fitting;
}

StageTimes RecomputeChoices::times(StageId stage,
                                   std::size_t policy,
                                   StageFacts const& facts) const {
  PieceSummary const& first = load(stage, policy).front();  // chunk 0 is the first distinct one
  return {
      .first_forward = static_cast<double>(first.forward.picoseconds),
      .last_backward = static_cast<double>(first.backward.picoseconds),
      .busy = static_cast<double>(microbatches_) * static_cast<double>(time(stage, policy).count()),
      .hidable =
          static_cast<double>(microbatches_) * static_cast<double>(hidable(stage, policy).count()),
      .begin = static_cast<double>(facts.begin.count()),
      .end = static_cast<double>(facts.end.count())};
}

StageTimes RecomputeChoices::window_times(StageId stage,
                                          std::size_t policy,
                                          int stored,
                                          StageFacts const& facts) const {
  StageTimes least = times(stage, 0, facts);  // times of a stage that stores everything
  std::int64_t const window = moments_[stage.index()].window;
  std::int64_t const runs = microbatches_ * chunks_;
  std::int64_t const kept = runs / window * stored + std::min<std::int64_t>(runs % window, stored);
  // The chunks that are not stored may be the ones with the least recompute.
  std::int64_t recompute = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < load(stage, policy).size(); ++i) {
    recompute =
        std::min(recompute, load(stage, policy)[i].picoseconds() - load(stage, 0)[i].picoseconds());
  }
  least.busy += static_cast<double>(runs - kept) * static_cast<double>(recompute);
  return least;
}

Bytes RecomputeChoices::warm_bytes(StageId stage, std::size_t policy) const {
  return Bytes{moments_[stage.index()].warm.bytes(load(stage, policy), sizes_)};
}

int RecomputeChoices::most_stored(StageId stage, std::size_t policy, Bytes room) const {
  StageMoments const& moments = moments_[stage.index()];
  StageLoad const& of = load(stage, policy);
  // The least bytes that a stored chunk keeps in addition.
  std::int64_t more = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < of.size(); ++i) {
    more = std::min(more, load(stage, 0)[i].forward.net - of[i].forward.net);
  }
  if (more <= 0) return moments.window;
  // All forwards of the first window are in flight except the last, which is about to run; it is
  // stored only if the whole window is.
  std::int64_t const next = of[static_cast<std::size_t>(moments.after_warm)].forward.peak;
  std::int64_t const left = (room - warm_bytes(stage, policy)).count() - next;
  if (left < 0) return 0;
  std::int64_t const stored = left / more;
  return stored + 1 >= moments.window ? moments.window : static_cast<int>(stored);
}

Bytes RecomputeChoices::least_held_with_window(StageId stage, std::size_t policy) const {
  return warm_bytes(stage, policy);
}

}  // namespace stagecraft
