#pragma once

#include <cstddef>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/task_profile.hpp"
#include "libsim/engine/timeline.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A plan with its prices: all that timeline and memory of an iteration follow from.
class PricedPlan {
 public:
  /// Both must outlive it. \throws std::invalid_argument  when the system cannot price the plan.
  PricedPlan(TrainingPlan const& plan, System const& system);
  PricedPlan(PricedPlan const&) = delete;  // timeline() points into it
  PricedPlan(PricedPlan&&) = delete;
  PricedPlan& operator=(PricedPlan const&) = delete;
  PricedPlan& operator=(PricedPlan&&) = delete;
  ~PricedPlan() = default;

  TrainingPlan const& plan() const { return plan_; }
  CostModel const& cost() const { return cost_; }
  std::vector<BlockProfile> const& blocks() const { return blocks_; }
  /// By task of a rank.
  std::vector<TaskProfile> const& tasks(std::size_t rank) const { return ranks_[rank].tasks; }
  std::vector<RankProgram> const& programs() const { return programs_; }
  TimelineInput timeline() const;

 private:
  struct Rank {
    std::vector<TaskProfile> tasks;
    std::vector<SimTime> durations;
  };

  TrainingPlan const& plan_;
  CostModel cost_;
  std::vector<BlockProfile> blocks_;
  std::vector<Rank> ranks_;
  std::vector<RankProgram> programs_;
};

}  // namespace stagecraft
