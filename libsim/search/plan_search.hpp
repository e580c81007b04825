#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/search/candidate.hpp"
#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// A plan of the answer. Its numbers are those of simulate().
struct FoundPlan {
  TrainingConfig config;
  Simulation simulation;

  /// Peak of its fullest stage, bytes.
  std::int64_t peak() const;
};

/// Why a kind of plan has no time.
enum class NoTime : std::uint8_t {
  has_time,
  is_slow,       ///< some may fit, but their lower bounds of time are too slow to be among the best
  fits_nowhere,  ///< none fits
  has_no_plan,   ///< the space has none
};

/// How fast a schedule was.
struct ScheduleBest {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  /// Iteration time of its fastest plan that was simulated and fits.
  std::optional<SimTime> iteration;
  NoTime why_not = NoTime::has_time;
};

/// The fastest plan of a kind of sharding.
struct ShardingBest {
  ShardingKind kind = ShardingKind::none;
  std::optional<SimTime> iteration;  ///< as that of a schedule
  NoTime why_not = NoTime::has_time;
};

/// The result of a plan search.
struct SearchResult {
  /// Plans of the space; the same number however many are simulated.
  std::int64_t considered = 0;
  std::int64_t simulated = 0;
  /// Plans whose schedule follows an order; part of `considered`.
  std::int64_t tried = 0;
  /// Plans that cannot fit, and windows of which no microbatch can be stored.
  std::int64_t dismissed_by_memory = 0;
  std::int64_t dismissed_by_bound = 0;
  /// Shapes with a schedule that were left out because even their lower bound is too slow. Only
  /// models with experts and schedules that follow an order have them. Their plans are not among
  /// `considered`.
  std::int64_t unexamined = 0;
  /// Shapes with a schedule that follows an order of more chunk passes than are searched
  /// (most_ordered_passes). Not in `considered`.
  std::int64_t unordered = 0;
  /// Shapes with a schedule that has more chunk passes than a run may have. Not in `considered`.
  std::int64_t oversized = 0;
  /// Of those simulated: plans that might belong to the answer by their time and counted bytes, but
  /// not by what their devices hold: they run out of memory, or leave less than the margin. Plans
  /// whose stages choose their policies are also tried with the next ones (StageFilling).
  std::int64_t run_out = 0;
  std::optional<FoundPlan> fastest_to_run_out;
  /// The K fastest plans that fit. Equally fast plans are ordered by peak, then by the order of the
  /// search space.
  std::vector<FoundPlan> best;
  /// The Pareto front of time and peak memory, fastest first, up to `front_reach` times the time of
  /// the best plan. Of plans that took the place of refused ones, only those in `best` belong to
  /// it.
  std::vector<FoundPlan> front;
  std::optional<FoundPlan>
      best_launchable;                  ///< the fastest that SearchRequest::is_launchable takes
  std::vector<ScheduleBest> schedules;  ///< all that were searched
  std::vector<ShardingBest> shardings;  ///< likewise
  std::optional<NearMiss> closest;      ///< if nothing fits
};

/// Searches for the plans with the shortest iteration among those that fit in memory by the verdict
/// of `simulate`, and whose stages all leave the margin on their devices (accepts()).
///
/// Stages that choose their policies (per_stage, window) begin with what counted bytes may allow.
/// Where their device refuses that, they take the next policy, in the order of time: the first that
/// is accepted is the fastest that fits. The time of what was refused bounds what comes next.
///
/// A plan is dismissed without simulation only if its memory cannot fit (of which a lower bound is
/// known: exact but for windows, and if a file says how many rows experts compute), or if its lower
/// bound of time is above the K-th best and a simulated plan is faster than that bound and holds no
/// more. Plans are simulated by ascending bound, in batches whose size does not depend on `jobs`,
/// so the result and the counts do not depend on it either.
///
/// Schedules that follow an order come after the others. They are looked at shape by shape, and
/// only if they could be among the best without any bubble.
///
/// This folder enumerates the space (search_space.hpp), finds each plan's memory and lower bound
/// from its blocks (candidate_source.hpp), and simulates the plans that may belong to the answer.
/// Pre: the base configuration and the system were checked by their readers.
SearchResult search_plans(SearchRequest const& request);

}  // namespace stagecraft
