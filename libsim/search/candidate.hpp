#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/search/search_space.hpp"

namespace stagecraft {

/// A plan that may be worth simulating.
struct Candidate {
  double bound = 0;       ///< no iteration of it is faster, picoseconds
  std::int64_t peak = 0;  ///< of its fullest stage, bytes; windows: no less than this
  std::int32_t arrangement = 0;
  std::int32_t stages = -1;  ///< per_stage: entry of Candidates::stage_policies
  PolicyCode policy;
  bool distributed_optimizer = false;
};

/// What came closest to fitting where nothing does.
struct NearMiss {
  Arrangement arrangement;
  PolicyCode policy;
  bool distributed_optimizer = false;
  int stage = 0;            ///< its fullest
  std::int64_t excess = 0;  ///< bytes beyond capacity less reserve
};

/// All plans of a part of the space, in its order, less those that cannot fit.
struct Candidates {
  std::vector<Arrangement> arrangements;
  std::vector<Candidate> plans;
  std::vector<std::vector<PolicyCode>> stage_policies;
  std::int64_t considered = 0;
  std::int64_t dismissed_by_memory = 0;
  std::optional<NearMiss> closest;  ///< of the dismissed

  /// Appends those of the next part.
  void append(Candidates&& next);
};

}  // namespace stagecraft
