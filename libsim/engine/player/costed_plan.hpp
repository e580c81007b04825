#pragma once

#include <cstddef>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/player/task_profile.hpp"
#include "libsim/engine/player/timeline.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A plan with its costs: the times of each block, each stage's tasks and each channel, computed
/// once. It does not change afterwards, and its timeline() points into it.
class CostedPlan {
 public:
  /// Both must outlive it. \throws CostError  if the system cannot cost the plan.
  CostedPlan(TrainingPlan const& plan, System const& system);
  CostedPlan(TrainingPlan const&&, System const&) = delete;
  CostedPlan(TrainingPlan const&, System const&&) = delete;
  CostedPlan(CostedPlan const&) = delete;  // timeline() points into it
  CostedPlan(CostedPlan&&) = delete;
  CostedPlan& operator=(CostedPlan const&) = delete;
  CostedPlan& operator=(CostedPlan&&) = delete;
  ~CostedPlan() = default;

  TrainingPlan const& plan() const { return plan_; }
  System const& system() const { return system_; }
  CostModel const& cost() const { return cost_; }
  std::vector<BlockProfile> const& blocks() const { return blocks_; }
  /// By task of a stage.
  std::vector<TaskProfile> const& tasks(std::size_t stage) const { return stages_[stage].tasks; }
  /// The cost of a message, by channel.
  std::vector<MessageCost> const& channels() const { return channels_; }
  std::vector<PlayedStage> const& played() const { return played_; }
  TimelineInput timeline() const;

 private:
  struct Stage {
    std::vector<TaskProfile> tasks;
    std::vector<SimTime> durations;
    std::vector<SimTime> on_links;
  };

  TrainingPlan const& plan_;
  System const& system_;
  CostModel cost_;
  std::vector<BlockProfile> blocks_;
  std::vector<Stage> stages_;
  std::vector<PlayedStage> played_;
  std::vector<MessageCost> channels_;
};

/// The cost of a message of each channel, which depends on the stages that it connects.
std::vector<MessageCost> channel_costs(TrainingPlan const& plan, CostModel const& cost);

}  // namespace stagecraft
