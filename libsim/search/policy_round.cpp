#include "libsim/search/policy_round.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace stagecraft {
namespace {

/// Enumerates the policies of one arrangement and one kind of optimizer. It appends plans to
/// `found`, from `first_` on, and owns what a stage takes under the policy that is being added.
class PolicyRound {
 public:
  PolicyRound(PolicySpace const& space, Candidates& found)
      : space_{space},
        request_{space.request},
        choices_{space.choices},
        found_{found},
        first_{found.plans.size()},
        times_(static_cast<std::size_t>(found.arrangements.back().schedule.pipeline)) {}

  void run() {
    for (std::size_t i = 0; i < choices_.policies().size(); ++i) {
      PolicyCode const code = choices_.policies()[i];
      if (is_wanted(code.kind) && is_wanted(std::span{&code, 1})) add_uniform(i);
    }
    if (is_wanted(RecomputeKind::per_stage)) add_least_recompute();
    // With units a stage has one microbatch in flight: a window stores all or none.
    bool const has_window =
        !has_order(found_.arrangements.back().schedule.kind) && !space_.made.sharding.has_units();
    if (!has_window || !is_wanted(RecomputeKind::window)) return;
    if (Candidate* const none = known({RecomputeKind::none, 0}); none && !may_need_recompute()) {
      none->begins_windows = true;
    } else {
      add_window(0, RecomputeKind::selective);
      add_window(1, RecomputeKind::uniform);
    }
  }

 private:
  bool is_wanted(RecomputeKind kind) const { return allows(request_.filter.recompute, kind); }
  /// Whether the request wants the plan that an entry with these policies stands for.
  bool is_wanted(std::span<PolicyCode const> codes) const {
    return !request_.is_wanted ||
           request_.is_wanted(
               config_with(request_, found_.arrangements.back(), codes, space_.made.sharding));
  }
  StageFacts const& facts(StageId stage) const { return space_.facts[stage.index()]; }
  StageTimes& times(StageId stage) { return times_[stage.index()]; }
  Bytes excess(StageId stage, std::size_t policy) const {
    return facts(stage).resident + choices_.held(stage, policy) - space_.room;
  }
  bool may_need_recompute() const {
    if (!choices_.is_exact()) return true;
    for (StageId const stage : choices_.stage_ids()) {
      if (excess(stage, 0) > Bytes{0}) return true;
    }
    return false;
  }

  /// The plan of the round in which all stages have the policy; null if there is none.
  Candidate* known(PolicyCode policy) {
    auto const begin = found_.plans.begin() + static_cast<std::ptrdiff_t>(first_);
    auto const place = std::find_if(begin, found_.plans.end(),
                                    [&](Candidate const& plan) { return plan.policy == policy; });
    return place == found_.plans.end() ? nullptr : &*place;
  }

  void add(Candidate made, Bytes most_excess) {
    made.bound = iteration_bound(times_, space_.moments, space_.messages,
                                 found_.arrangements.back().schedule.kind);
    made.peak = (most_excess + space_.room + request_.system.calibration.workspace.value).count();
    ++found_.considered;
    // Its times would overflow, and the reader of a run refuses it.
    if (made.bound > longest_) {
      ++found_.too_long;
      found_.slow.add(found_.arrangements.back().schedule.kind, made.sharding.kind);
      return;
    }
    found_.plans.push_back(made);
  }

  void add_uniform(std::size_t policy) {
    Bytes most = least_bytes;
    StageId fullest{0};
    for (StageId const stage : choices_.stage_ids()) {
      Bytes const over = excess(stage, policy);
      if (over > most) fullest = stage;
      most = std::max(most, over);
    }
    Candidate made = space_.made;
    made.policy = choices_.policies()[policy];
    if (most > Bytes{0} && !request_.exhaustive) {
      ++found_.considered;
      ++found_.dismissed_by_memory;
      found_.misfits.add(found_.arrangements.back().schedule.kind, made.sharding.kind);
      if (!found_.closest || most.count() < found_.closest->excess) {
        found_.closest = NearMiss{.arrangement = found_.arrangements.back(),
                                  .policy = made.policy,
                                  .sharding = made.sharding,
                                  .stage = fullest,
                                  .excess = most.count()};
      }
      return;
    }
    for (StageId const stage : choices_.stage_ids()) {
      times(stage) = choices_.times(stage, policy, facts(stage));
    }
    add(made, most);
  }

  void add_least_recompute() {
    std::vector<PolicyCode> codes;
    Bytes most = least_bytes;
    bool is_uniform = true;
    std::size_t first = 0;
    for (StageId const stage : choices_.stage_ids()) {
      auto const policy = choices_.least_recompute(stage, space_.room - facts(stage).resident);
      if (!policy) return;
      if (stage == StageId{0}) first = *policy;
      is_uniform = is_uniform && *policy == first;
      most = std::max(most, excess(stage, *policy));
      times(stage) = choices_.times(stage, *policy, facts(stage));
      codes.push_back(choices_.policies()[*policy]);
    }
    if (Candidate* const same = is_uniform ? known(codes.front()) : nullptr) {
      same->begins_stages = true;
      return;
    }
    if (!is_wanted(codes)) return;
    Candidate made = space_.made;
    made.policy = {RecomputeKind::per_stage, 0};
    made.stages = static_cast<std::int32_t>(found_.stage_policies.size());
    found_.stage_policies.push_back(std::move(codes));
    add(made, most);
  }

  void add_window(std::int32_t code, RecomputeKind beside) {
    auto const& policies = choices_.policies();
    PolicyCode const wanted{beside, static_cast<std::int32_t>(beside == RecomputeKind::uniform)};
    auto const policy = static_cast<std::size_t>(
        std::find(policies.begin(), policies.end(), wanted) - policies.begin());
    Bytes most = least_bytes;
    bool stores = false;
    for (StageId const stage : choices_.stage_ids()) {
      if (excess(stage, policy) > Bytes{0}) return;
      Bytes const resident = facts(stage).resident;
      int const stored = choices_.most_stored(stage, policy, space_.room - resident);
      stores = stores || stored > 0;
      most =
          std::max(most, resident + choices_.least_held_with_window(stage, policy) - space_.room);
      times(stage) = choices_.window_times(stage, policy, stored, facts(stage));
    }
    Candidate made = space_.made;
    made.policy = {RecomputeKind::window, code};
    if (!stores || !is_wanted(std::span{&made.policy, 1})) return;
    add(made, most);
  }

  static constexpr double longest_ = 9e18;  ///< picoseconds
  static constexpr Bytes least_bytes{std::numeric_limits<std::int64_t>::min()};
  PolicySpace const& space_;
  SearchRequest const& request_;
  RecomputeChoices const& choices_;
  Candidates& found_;
  std::size_t first_;  ///< of the round's plans
  std::vector<StageTimes> times_;
};

}  // namespace

TrainingConfig config_with(SearchRequest const& request,
                           Arrangement const& arrangement,
                           std::span<PolicyCode const> codes,
                           Sharding sharding) {
  std::vector<RecomputePolicy> policies;
  policies.reserve(codes.size());
  for (PolicyCode const code : codes) policies.push_back(policy_of(code));
  return make_config(request, arrangement, std::move(policies), sharding);
}

void append_policies(PolicySpace const& space, Candidates& found) {
  PolicyRound{space, found}.run();
}

}  // namespace stagecraft
