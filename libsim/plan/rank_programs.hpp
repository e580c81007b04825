#pragma once

#include <optional>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The programs of one rank of each stage: the plan's, with room for the rows that the rank's own
/// experts compute. Chunks have the numbers that they have in the plan; blocks may have others.
class RankPrograms {
 public:
  /// `plan` must outlive the object. `rank` is the number of the rank in its stage.
  RankPrograms(TrainingPlan const& plan, int rank);
  RankPrograms(TrainingPlan const&&, int) = delete;

  Programs const& operator*() const { return own_ ? *own_ : plan_.programs; }

 private:
  TrainingPlan const& plan_;
  std::optional<Programs> own_;  ///< only if the ranks of a stage differ
};

/// A rank of a stage, for computing its memory. All must outlive the object.
struct StageRank {
  TrainingPlan const& plan;
  StagePlan const& stage;
  Programs const& programs;  ///< the rank's programs

  /// Any rank of the stage, with the programs of the plan.
  StageRank(TrainingPlan const& of, StagePlan const& on) : StageRank{of, on, of.programs} {}
  StageRank(TrainingPlan const& of, StagePlan const& on, Programs const& with)
      : plan{of}, stage{on}, programs{with} {}
  StageRank(TrainingPlan const&&, StagePlan const&) = delete;
  StageRank(TrainingPlan const&, StagePlan const&&) = delete;
};

}  // namespace stagecraft
