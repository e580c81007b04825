#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/memory_walk.hpp"
#include "libsim/engine/work_profile.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// What a work costs its rank.
struct WorkPrice {
  SimTime duration{0};
  MemoryMove memory;
};

/// Prices the works of a plan. Most stages run the same chunks, so whole chunks are priced once for
/// all.
class WorkPrices {
 public:
  /// Both must outlive it. \throws std::invalid_argument  when the system cannot price the plan.
  WorkPrices(TrainingPlan const& plan, CostModel const& cost);

  /// Valid for as long as this object.
  WorkPrice const& of(RankPlan const& rank, Work const& work);

 private:
  WorkPrice const* make(RankPlan const& rank, Work const& work);

  TrainingPlan const& plan_;
  CostModel const& cost_;
  std::vector<BlockProfile> blocks_;
  std::deque<WorkPrice> made_;         ///< never moves what it holds
  std::vector<std::int32_t> same_as_;  ///< by chunk program: the first with the same blocks
  std::vector<std::array<WorkPrice const*, 2>> whole_;  ///< by chunk program and pass
};

}  // namespace stagecraft
