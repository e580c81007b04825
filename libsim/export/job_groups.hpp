#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/plan/training_plan.hpp"
#include "libsim/program/op.hpp"
#include "libsim/program/op_kind.hpp"
#include "libsim/trace/trace_reader.hpp"

namespace stagecraft {

/// The names that other programs give a kind of collective.
struct CollectiveNames {
  std::string_view nccl_kernel;  ///< "AllReduce" of ncclDevKernel_AllReduce...
  std::string_view pytorch;      ///< in the record of a profiler
  /// CollectiveCommType of Chakra's schema; nullopt: a node that sends and one that receives.
  std::optional<std::int64_t> chakra;
};

/// \throws std::logic_error  if the kind is not a collective.
CollectiveNames const& collective_names(OpKind kind);

/// The plan whose trace this is, for who communicates with whom.
/// \throws TraceFileError  when the configuration of the trace does not load or gives another plan.
TrainingPlan plan_of_trace(TraceReader const& trace);

/// The ranks of the job for which a rank of a trace stands.
struct JobRanks {
  std::int32_t first = 0;
  std::int32_t count = 1;
};

/// A rank of a simulated trace stands for all ranks of its stage, any other one for itself.
/// \throws TraceFileError  if the plan, whose groups these are, does not have the rank.
JobRanks job_ranks_of(TraceReader const& trace, RankTrace const& rank, RankGroups const& groups);

/// The collective that a name of a trace stands for.
struct CollectiveOp {
  OpKind kind = OpKind::all_reduce;
  GroupId group{};
  int shift = 0;  ///< ring_shift: how far behind a member the one is that it sends to
};

/// Collectives of a plan by their name in traces.
std::map<std::string, CollectiveOp> collectives_of(TrainingPlan const& plan);

/// Numbers for the groups of ranks that communicate, in the order in which they are asked for.
class GroupNumbers {
 public:
  /// `groups` must outlive it.
  explicit GroupNumbers(RankGroups const& groups) : groups_{groups} {}

  /// The number of the rank's group. Pre: the job has the rank, and the rank takes part.
  std::int32_t number_of(GroupId group, RankId rank);
  /// Ranks of each group so far, by number.
  std::vector<std::vector<RankId>> const& members() const { return members_; }

 private:
  RankGroups const& groups_;
  std::map<std::pair<GroupId, RankId>, std::int32_t> numbers_;
  std::vector<std::vector<RankId>> members_;
};

}  // namespace stagecraft
