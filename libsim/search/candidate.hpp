#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/search/search_space.hpp"

namespace stagecraft {

/// A plan that may be worth simulating.
struct Candidate {
  double bound = 0;       ///< lower bound of its iteration, picoseconds
  std::int64_t peak = 0;  ///< peak of its fullest stage, bytes. For windows, and if a file says how
                          ///< many rows experts compute, a lower bound
  std::int32_t arrangement = 0;
  std::int32_t stages = -1;  ///< per_stage: index into Candidates::stage_policies
  PolicyCode policy;
  Sharding sharding;
  /// Without a choice, it is also what per_stage, or a window, begins with: if devices refuse it,
  /// that goes on.
  bool begins_stages = false;
  bool begins_windows = false;
};

/// The plan that comes closest to fitting if none fits.
struct NearMiss {
  Arrangement arrangement;
  PolicyCode policy;
  Sharding sharding;
  StageId stage{};          ///< its fullest stage
  std::int64_t excess = 0;  ///< bytes that it lacks, the margin counted
  bool fits_without_margin = false;
};

/// The kinds of schedules and of sharding that some plans have.
struct PlanKinds {
  std::bitset<EnumNames<ScheduleKind>::all.size()> schedules;
  std::bitset<EnumNames<ShardingKind>::all.size()> shardings;

  void add(ScheduleKind schedule, ShardingKind sharding) {
    schedules.set(static_cast<std::size_t>(schedule));
    shardings.set(static_cast<std::size_t>(sharding));
  }
  void add(PlanKinds const& others) {
    schedules |= others.schedules;
    shardings |= others.shardings;
  }
  bool has(ScheduleKind kind) const { return schedules[static_cast<std::size_t>(kind)]; }
  bool has(ShardingKind kind) const { return shardings[static_cast<std::size_t>(kind)]; }
};

/// The plans of a part of the search space that may fit, in the order of the space.
struct Candidates {
  std::vector<Arrangement> arrangements;
  std::vector<Candidate> plans;
  std::vector<std::vector<PolicyCode>> stage_policies;
  std::int64_t considered = 0;
  std::int64_t dismissed_by_memory = 0;
  std::int64_t ordered = 0;         ///< of `considered`, those whose schedule follows an order
  std::int64_t unordered = 0;       ///< orders of shapes with more passes than are searched
  std::int64_t unexamined = 0;      ///< schedules of shapes that take longer than was asked for
  std::int64_t oversized = 0;       ///< schedules of shapes with more passes than a run may have
  std::int64_t too_long = 0;        ///< not in `plans`: their times are beyond a limit
  std::optional<NearMiss> closest;  ///< of the dismissed plans
  PlanKinds misfits;                ///< of plans that were left out because they cannot fit
  PlanKinds slow;                   ///< of plans that were left out because of their times

  /// Appends the plans of the next part.
  void append(Candidates&& next);
};

}  // namespace stagecraft
