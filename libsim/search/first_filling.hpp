#pragma once

#include <cstddef>
#include <vector>

#include "libsim/search/candidate_source.hpp"
#include "libsim/training/training_config.hpp"
#include "libsim/units/ids.hpp"

namespace stagecraft {

/// What the stages of a plan recompute, if each has several policies to choose from: the fastest
/// that its device has not refused.
///
/// A stage's memory depends on its own policy alone, and an iteration takes no less time if a stage
/// recomputes more. So the first combination in which no stage is refused is the fastest that fits,
/// and none is faster than those before it.
class StageFilling {
 public:
  /// `options`: of each stage, those that add the least time first. Begins with the first of each.
  StageFilling(TrainingConfig config, std::vector<std::vector<RecomputePolicy>> options);

  /// Gives each of the stages its next policy. Returns false if one of them has none.
  bool refuse(std::vector<StageId> const& stages);

  /// The run with the present policies.
  TrainingConfig const& config() const { return config_; }
  /// The stages that were refused last: all others have been accepted as they are.
  std::vector<StageId> const& changed() const { return changed_; }
  /// Whether the plan is one of the space in which stages have no choice: all have the same policy,
  /// and none stores microbatches of a window.
  bool is_without_choice() const;

 private:
  void set_policies();

  TrainingConfig config_;
  std::vector<std::vector<RecomputePolicy>> options_;
  std::vector<std::size_t> chosen_;  ///< by stage
  std::vector<StageId> changed_;
};

/// The run that a candidate begins with. Windows store as many microbatches as counted bytes allow.
/// `room`: what a stage may hold by them.
TrainingConfig first_run(SearchRequest const& request,
                         Candidates const& candidates,
                         Candidate const& plan,
                         Bytes room);

/// What the stages of a candidate of kind per_stage or window may have, what they begin with first.
StageFilling first_filling(SearchRequest const& request,
                           CandidateSource& source,
                           Candidates const& candidates,
                           Candidate const& plan);

}  // namespace stagecraft
