#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "libsim/search/block_summaries.hpp"
#include "libsim/search/candidate.hpp"
#include "libsim/search/recompute_choice.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/stage_facts.hpp"
#include "libsim/search/stage_moments.hpp"

namespace stagecraft {

/// Enumerates the plans of a search and gives each its bounds. Holds what shapes share: moments,
/// facts of stages and legal orders, each computed when it is first asked for. Threads may share
/// it.
class CandidateSource {
 public:
  /// `request` must outlive this object.
  explicit CandidateSource(SearchRequest const& request);

  /// What to do with plans that cannot fit because of what a stage holds throughout the iteration.
  enum class Hopeless : std::uint8_t { counted, looked_at };

  /// Returns all plans with one shape, in order. Those that cannot fit are only counted, unless the
  /// search is exhaustive. Those whose parameters, gradients and optimizer state alone are too
  /// large are candidates for Candidates::closest only with `looked_at`. No two entries are the
  /// same plan, except that a window may turn out to store nothing. Schedules with which every plan
  /// takes longer than `limit` (picoseconds) are left out: their plans are not counted.
  Candidates of(ShapeChoice const& shape,
                Hopeless hopeless = Hopeless::counted,
                double limit = std::numeric_limits<double>::infinity());

  /// The same of the schedules that follow an order. Each is looked at only if it could keep within
  /// the limit without any bubble.
  Candidates ordered(ShapeChoice const& shape, Hopeless hopeless, double limit);

  /// The same of the plans that share parameters as units. Where every plan takes longer than the
  /// limit they are only counted.
  Candidates units(ShapeChoice const& shape,
                   Hopeless hopeless = Hopeless::counted,
                   double limit = std::numeric_limits<double>::infinity());

  /// A lower bound of the iteration of all plans with one shape, picoseconds, with whole backwards
  /// alone or with split ones too.
  double least_time(ShapeChoice const& shape, BackwardPasses passes = BackwardPasses::whole) const;

  /// For each stage, the policies with which it may fit, those that add the least time first: a
  /// plan of kind per_stage begins with the first of each.
  std::vector<std::vector<PolicyCode>> stage_policies(Arrangement const& arrangement,
                                                      Sharding sharding);

  /// Counts a schedule all of whose plans take too long.
  void leave_out(ShapeChoice const& shape, ScheduleChoice const& schedule, Candidates& found) const;

  /// What a stage may hold by counted bytes, workspace apart (most_counted()).
  Bytes room() const { return room_; }

 private:
  /// The number of plans of an arrangement with policies that all stages share.
  std::int64_t plans_with(Arrangement const& arrangement, Sharding sharding) const;

  /// Whether the schedule of an arrangement, which follows an order, is legal.
  bool has_order_for(Arrangement const& arrangement);
  /// Whether the plans of an arrangement were dismissed and counted, as what is resident alone does
  /// not fit.
  bool dismiss(Arrangement const& arrangement,
               Sharding sharding,
               std::vector<StageFacts> const& facts,
               Candidates& found) const;
  /// For each stage, the policies with which it may fit.
  std::vector<std::vector<PolicyCode>> policies_by_time(RecomputeChoices const& choices,
                                                        std::vector<StageFacts> const& facts) const;
  /// Appends all plans of a shape with one schedule.
  void append_plans(ScheduleChoice const& schedule,
                    class BlocksOfShape& blocks,
                    Hopeless hopeless,
                    Candidates& found);

  SearchRequest const& request_;
  Bytes room_;
  StageMomentsCache moments_;
  StageFactsCache facts_;
  std::vector<PolicyCode> modules_;  ///< module_policies()
  std::mutex mutex_;
  std::map<std::array<std::int64_t, 4>, bool> orders_;  ///< by kind, stages, chunks, microbatches
};

/// The run that a candidate stands for; windows are still `auto`.
TrainingConfig config_of(SearchRequest const& request,
                         Candidates const& candidates,
                         Candidate const& plan);

}  // namespace stagecraft
