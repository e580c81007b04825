#include "libsim/export/job_groups.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "libsim/config/problem.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/report/paper/own_plan.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

namespace {

struct Row {
  OpKind kind;
  CollectiveNames names;
};

constexpr std::array rows{
    Row{OpKind::all_reduce, {"AllReduce", "allreduce", 0}},
    Row{OpKind::all_gather, {"AllGather", "_allgather_base", 2}},
    Row{OpKind::reduce_scatter, {"ReduceScatter", "_reduce_scatter_base", 7}},
    Row{OpKind::all_to_all, {"SendRecv", "all_to_allv", 6}},
    Row{OpKind::ring_shift, {"SendRecv", "coalesced", std::nullopt}},
    // Messages from stage to stage; Chakra's schema has nothing nearer than an all-reduce.
    Row{OpKind::prefix_reduce, {"SendRecv", "coalesced", 0}},
};

static_assert(std::all_of(op_kinds.begin(),
                          op_kinds.end(),
                          [](OpKind kind) {
                            auto const is_row = [&](Row const& row) { return row.kind == kind; };
                            return is_collective(kind) ==
                                   std::any_of(rows.begin(), rows.end(), is_row);
                          }),
              "each collective of op_kinds.def needs a row");

void add_collective(std::map<std::string, CollectiveOp>& collectives, Op const& op) {
  if (is_collective(op.kind)) {
    auto const* const shift = std::get_if<ShiftAttributes>(&op.attributes);
    collectives.emplace(to_string(op.name),
                        CollectiveOp{op.kind, op.group.value(), shift == nullptr ? 0 : shift->by});
  }
}

}  // namespace

CollectiveNames const& collective_names(OpKind kind) {
  for (Row const& row : rows) {
    if (row.kind == kind) return row.names;
  }
  throw std::logic_error{std::string{name_of(kind)} + " is not a collective"};
}

TrainingPlan plan_of_trace(TraceReader const& trace) {
  try {
    TrainingPlan plan = plan_of_configuration(trace);
    if (fingerprint(plan) == trace.meta().plan) return plan;
  } catch (ConfigError const&) {
    throw TraceFileError{
        trace.name(),
        "its configuration does not load, so that who communicates with whom is not known"};
  }
  throw TraceFileError{trace.name(), "its configuration gives another plan in this version"};
}

JobRanks job_ranks_of(TraceReader const& trace, RankTrace const& rank, RankGroups const& groups) {
  if (rank.stage < 0 || rank.stage >= groups.stages() || rank.rank >= groups.ranks()) {
    throw TraceFileError{trace.name(), "rank " + std::to_string(rank.rank) + " of stage " +
                                           std::to_string(rank.stage) + " is not in its plan"};
  }
  if (trace.meta().clock != TraceClock::simulated) return {rank.rank, 1};
  return {rank.stage * groups.ranks_per_stage(), groups.ranks_per_stage()};
}

std::map<std::string, CollectiveOp> collectives_of(TrainingPlan const& plan) {
  std::map<std::string, CollectiveOp> collectives;
  for (BlockProgram const& block : plan.programs.blocks) {
    for (Op const& op : block.forward) add_collective(collectives, op);
    for (Op const& op : block.backward) add_collective(collectives, op);
  }
  for (StagePlan const& rank : plan.stages) {
    for (Op const& op : rank.step_ops) add_collective(collectives, op);
  }
  return collectives;
}

std::int32_t GroupNumbers::number_of(GroupId group, RankId rank) {
  auto const [found, is_new] = numbers_.emplace(std::make_pair(group, rank), -1);
  if (!is_new) return found->second;
  std::vector<RankId> members = groups_.membership(group, rank).value().members;
  auto const number = static_cast<std::int32_t>(members_.size());
  for (RankId const member : members) numbers_[{group, member}] = number;
  members_.push_back(std::move(members));
  return number;
}

}  // namespace stagecraft
