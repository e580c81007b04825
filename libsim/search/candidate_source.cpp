#include "libsim/search/candidate_source.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "libsim/search/device_room.hpp"
#include "libsim/search/module_policies.hpp"
#include "libsim/search/policy_round.hpp"
#include "libsim/training/training_config_checks.hpp"

namespace stagecraft {
namespace {

/// A lower bound of the iteration with any layer shares and policies, picoseconds, if a microbatch
/// takes at least `work` on all stages together: the busiest stage has at least an equal share of
/// it. Without interleaving, the first microbatch passes through the other stages before that stage
/// begins, or after it has ended.
double least_time_of(SearchRequest const& request,
                     ShapeChoice const& shape,
                     ScheduleChoice const& schedule,
                     double work) {
  constexpr double safety = 1 - 1e-9;  // of the rounding of sums
  double const stages = schedule.pipeline;
  double const microbatches =
      static_cast<double>(request.global_batch) /
      (static_cast<double>(schedule.data) * static_cast<double>(shape.micro));
  if (schedule.interleave > 1 || has_order(schedule.kind))
    return safety * work * microbatches / stages;
  return safety * work * (1 + (microbatches - 1) / stages);
}

}  // namespace

/// The blocks of a shape, made when they are asked for.
class BlocksOfShape {
 public:
  BlocksOfShape(SearchRequest const& request, ShapeChoice const& shape)
      : request_{request}, shape_{shape} {}
  ShapeChoice const& shape() const { return shape_; }
  BlockSummaries& of(BackwardPasses passes) {
    std::optional<BlockSummaries>& made = passes == BackwardPasses::whole ? whole_ : split_;
    if (!made) made.emplace(request_, shape_, passes);
    return *made;
  }

 private:
  SearchRequest const& request_;
  ShapeChoice const& shape_;
  std::optional<BlockSummaries> whole_;
  std::optional<BlockSummaries> split_;
};

void Candidates::append(Candidates&& next) {
  auto const arrangement = static_cast<std::int32_t>(arrangements.size());
  auto const stages = static_cast<std::int32_t>(stage_policies.size());
  for (Candidate& plan : next.plans) {
    plan.arrangement += arrangement;
    if (plan.stages >= 0) plan.stages += stages;
    plans.push_back(plan);
  }
  std::move(next.arrangements.begin(), next.arrangements.end(), std::back_inserter(arrangements));
  std::move(next.stage_policies.begin(), next.stage_policies.end(),
            std::back_inserter(stage_policies));
  considered += next.considered;
  dismissed_by_memory += next.dismissed_by_memory;
  ordered += next.ordered;
  unordered += next.unordered;
  unexamined += next.unexamined;
  oversized += next.oversized;
  too_long += next.too_long;
  misfits.add(next.misfits);
  slow.add(next.slow);
  if (next.closest && (!closest || next.closest->excess < closest->excess)) closest = next.closest;
}

CandidateSource::CandidateSource(SearchRequest const& request)
    : request_{request},
      room_{most_counted(request)},
      facts_{request},
      modules_{module_policies(request)} {}

std::int64_t CandidateSource::plans_with(Arrangement const& arrangement, Sharding sharding) const {
  std::int64_t const layers = largest_chunk(arrangement);
  std::vector<PolicyCode> const policies =
      sharding.has_units() ? unit_policies(layers, modules_) : uniform_policies(layers, modules_);
  return std::count_if(policies.begin(), policies.end(), [&](PolicyCode const policy) {
    if (!allows(request_.filter.recompute, policy.kind)) return false;
    return !request_.is_wanted ||
           request_.is_wanted(config_with(request_, arrangement, std::span{&policy, 1}, sharding));
  });
}

double CandidateSource::least_time(ShapeChoice const& shape, BackwardPasses passes) const {
  BlockSummaries blocks{request_, shape, passes};
  auto const of_all =
      static_cast<double>(request_.global_batch) / static_cast<double>(shape.micro) *
      static_cast<double>(shape.ranks_together()) / static_cast<double>(request_.gpus);
  constexpr double safety = 1 - 1e-9;
  // Orders with pairs of passes are among the split ones.
  std::int64_t const hidable = passes == BackwardPasses::split ? blocks.hidable() : 0;
  return safety * of_all * static_cast<double>(blocks.work() - hidable);
}

bool CandidateSource::has_order_for(Arrangement const& arrangement) {
  ScheduleChoice const& schedule = arrangement.schedule;
  TrainingConfig const config =
      make_config(request_, arrangement, {RecomputePolicy{}}, least_sharding(request_));
  std::array<std::int64_t, 4> const key{static_cast<std::int64_t>(schedule.kind), schedule.pipeline,
                                        schedule.interleave, microbatches(config)};
  {
    std::lock_guard const lock{mutex_};
    auto const known = orders_.find(key);
    if (known != orders_.end()) return known->second;
  }
  bool const has = problems_of(config).empty();
  std::lock_guard const lock{mutex_};
  return orders_.try_emplace(key, has).first->second;
}

void CandidateSource::append_plans(ScheduleChoice const& schedule,
                                   BlocksOfShape& blocks,
                                   Hopeless hopeless,
                                   Candidates& found) {
  ShapeChoice const& shape = blocks.shape();
  std::shared_ptr<ScheduleMoments const> moments;
  std::optional<MessageTimes> messages;
  for (LayerShares const& shares : share_choices(request_, schedule)) {
    Arrangement const arrangement{shape, schedule, shares};
    std::optional<RecomputeChoices> choices;
    for (Sharding const& sharding : whole_shardings(request_, shape, schedule)) {
      auto const facts = facts_.of(arrangement, sharding);
      if (hopeless == Hopeless::counted && dismiss(arrangement, sharding, *facts, found)) continue;
      if (!choices) {
        TrainingConfig const config =
            make_config(request_, arrangement, {RecomputePolicy{}}, least_sharding(request_));
        LayerKinds const& kinds = blocks.of(BackwardPasses::whole).kinds();
        ArrangedStages contents{kinds, arrangement};
        // If all layers are alike, the same chunks are equal for all shares.
        bool const are_equal = kinds.are_alike() && copies_of(schedule.kind) == 1;
        if (!moments || !are_equal) moments = moments_.of(config, contents);
        if (!messages) messages.emplace(request_, arrangement);
        BlockSummaries& summaries = blocks.of(moments->passes);
        choices.emplace(arrangement, std::move(contents), summaries, moments->stages,
                        summaries.message_sizes(), microbatches(config) / copies_of(schedule.kind),
                        modules_);
        found.arrangements.push_back(arrangement);
      }
      Candidate made;
      made.arrangement = static_cast<std::int32_t>(found.arrangements.size()) - 1;
      made.sharding = sharding;
      append_policies({request_, *choices, moments->stages, *messages, *facts, room_, made}, found);
    }
  }
}

bool CandidateSource::dismiss(Arrangement const& arrangement,
                              Sharding sharding,
                              std::vector<StageFacts> const& facts,
                              Candidates& found) const {
  bool const fits = std::all_of(facts.begin(), facts.end(),
                                [&](StageFacts const& stage) { return stage.resident <= room_; });
  if (fits || request_.exhaustive) return false;
  std::int64_t const dismissed = plans_with(arrangement, sharding);
  found.considered += dismissed;
  found.dismissed_by_memory += dismissed;
  if (dismissed > 0) found.misfits.add(arrangement.schedule.kind, sharding.kind);
  return dismissed > 0;
}

void CandidateSource::leave_out(ShapeChoice const& shape,
                                ScheduleChoice const& schedule,
                                Candidates& found) const {
  ++found.unexamined;
  for (Sharding const& sharding : whole_shardings(request_, shape, schedule)) {
    found.slow.add(schedule.kind, sharding.kind);
  }
}

Candidates CandidateSource::units(ShapeChoice const& shape, Hopeless hopeless, double limit) {
  Candidates found;
  for (ScheduleChoice const& schedule : schedule_choices(request_, shape)) {
    std::vector<Sharding> const shardings = unit_shardings(request_, shape, schedule);
    if (shardings.empty()) continue;
    Arrangement const arrangement{shape, schedule, {request_.base.model.layers, 0, 0}};
    MessageTimes const messages{request_, arrangement};
    found.arrangements.push_back(arrangement);
    for (Sharding const& sharding : shardings) {
      auto const facts = facts_.of(arrangement, sharding);
      if (hopeless == Hopeless::counted && dismiss(arrangement, sharding, *facts, found)) continue;
      UnitSummaries units{request_, arrangement, sharding};
      // No policy takes less.
      if (static_cast<double>(units.iteration({RecomputeKind::none, 0}).picoseconds) > limit) {
        std::int64_t const slower = plans_with(arrangement, sharding);
        found.considered += slower;
        found.too_long += slower;
        if (slower > 0) found.slow.add(schedule.kind, sharding.kind);
        continue;
      }
      RecomputeChoices const choices{arrangement,
                                     ArrangedStages{LayerKinds{request_.base.model}, arrangement},
                                     units, modules_};
      Candidate made;
      made.arrangement = static_cast<std::int32_t>(found.arrangements.size()) - 1;
      made.sharding = sharding;
      append_policies({request_, choices, {}, messages, *facts, room_, made}, found);
    }
  }
  return found;
}

Candidates CandidateSource::of(ShapeChoice const& shape, Hopeless hopeless, double limit) {
  Candidates found;
  BlocksOfShape blocks{request_, shape};
  bool const is_limited = limit < std::numeric_limits<double>::infinity();
  ScheduleChoices const schedules = schedule_choices(request_, shape);
  found.oversized = schedules.oversized;
  double const work = is_limited ? static_cast<double>(blocks.of(BackwardPasses::whole).work()) : 0;
  for (ScheduleChoice const& schedule : schedules) {
    if (is_limited && least_time_of(request_, shape, schedule, work) > limit) {
      leave_out(shape, schedule, found);
    } else {
      append_plans(schedule, blocks, hopeless, found);
    }
  }
  return found;
}

Candidates CandidateSource::ordered(ShapeChoice const& shape, Hopeless hopeless, double limit) {
  Candidates found;
  BlocksOfShape blocks{request_, shape};
  ScheduleChoices const schedules = ordered_choices(request_, shape);
  found.unordered = schedules.unordered;
  if (schedules.empty()) return found;
  BlockSummaries& split = blocks.of(BackwardPasses::split);
  std::int64_t const alone = split.work();
  std::int64_t const in_pairs = alone - split.hidable();
  for (ScheduleChoice const& schedule : schedules) {
    auto const work = static_cast<double>(has_pairs(schedule.kind) ? in_pairs : alone);
    if (least_time_of(request_, shape, schedule, work) > limit) {
      leave_out(shape, schedule, found);
      continue;
    }
    Arrangement const some{shape, schedule, share_choices(request_, schedule).front()};
    if (has_order_for(some)) append_plans(schedule, blocks, hopeless, found);
  }
  found.ordered = found.considered;
  return found;
}

std::vector<std::vector<PolicyCode>> CandidateSource::stage_policies(Arrangement const& arrangement,
                                                                     Sharding sharding) {
  auto const facts = facts_.of(arrangement, sharding);
  if (sharding.has_units()) {
    UnitSummaries units{request_, arrangement, sharding};
    return policies_by_time(
        {arrangement, ArrangedStages{LayerKinds{request_.base.model}, arrangement}, units,
         modules_},
        *facts);
  }
  TrainingConfig const config =
      make_config(request_, arrangement, {RecomputePolicy{}}, least_sharding(request_));
  ArrangedStages contents{LayerKinds{config.model}, arrangement};
  auto const moments = moments_.of(config, contents);
  BlockSummaries blocks{request_, arrangement.shape, moments->passes};
  return policies_by_time(
      {arrangement, std::move(contents), blocks, moments->stages, blocks.message_sizes(),
       microbatches(config) / copies_of(arrangement.schedule.kind), modules_},
      *facts);
}

std::vector<std::vector<PolicyCode>> CandidateSource::policies_by_time(
    RecomputeChoices const& choices, std::vector<StageFacts> const& facts) const {
  std::vector<std::vector<PolicyCode>> policies;
  for (StageId const stage : choices.stage_ids()) {
    std::vector<PolicyCode>& of_stage = policies.emplace_back();
    for (std::size_t const policy : choices.by_time(stage, room_ - facts[stage.index()].resident)) {
      of_stage.push_back(choices.policies()[policy]);
    }
  }
  return policies;
}

TrainingConfig config_of(SearchRequest const& request,
                         Candidates const& candidates,
                         Candidate const& plan) {
  std::span<PolicyCode const> codes{&plan.policy, 1};
  if (plan.stages >= 0) codes = candidates.stage_policies[static_cast<std::size_t>(plan.stages)];
  return config_with(request, candidates.arrangements[static_cast<std::size_t>(plan.arrangement)],
                     codes, plan.sharding);
}

}  // namespace stagecraft
