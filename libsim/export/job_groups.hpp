#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libsim/model/op.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// What a name of a trace communicates.
struct CollectiveOp {
  OpKind kind = OpKind::all_reduce;
  CollectiveGroup group = CollectiveGroup::tensor;
};

/// Collectives of a plan by their name in traces.
std::map<std::string, CollectiveOp> collectives_of(TrainingPlan const& plan);

/// The ranks of a job in groups that communicate, each with a number. Ranks are numbered tensor
/// fastest, then data, then pipeline.
class JobGroups {
 public:
  explicit JobGroups(TrainingPlan const& plan);

  std::int32_t ranks() const { return tensor_ * data_ * pipeline_; }
  std::int32_t ranks_a_stage() const { return tensor_ * data_; }
  /// The number of the rank's group. Pre: 0 <= rank < ranks(). Groups are numbered as they are
  /// asked for.
  std::int32_t number_of(CollectiveGroup group, std::int32_t rank);
  /// Ranks of each group so far, by number.
  std::vector<std::vector<std::int32_t>> const& members() const { return members_; }

 private:
  std::vector<std::int32_t> members_of(CollectiveGroup group, std::int32_t rank) const;

  std::int32_t tensor_;
  std::int32_t data_;
  std::int32_t pipeline_;
  std::int32_t kv_replicas_;
  std::map<std::pair<CollectiveGroup, std::int32_t>, std::int32_t> numbers_;  ///< by kind and rank
  std::vector<std::vector<std::int32_t>> members_;
};

}  // namespace stagecraft
