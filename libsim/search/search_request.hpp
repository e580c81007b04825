#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// Families of recompute policies that a search goes through.
enum class RecomputeKind : std::uint8_t {
  none,
  selective,  ///< core attention
  uniform,    ///< full, in groups of N layers
  block,      ///< full, the first K layers of each chunk
  per_stage,  ///< on every stage the policy of the four above that fits and costs the least time
  window,     ///< selective or full, beside it as many microbatches stored as fit (appendix C)
};

/// A policy in few bytes.
struct PolicyCode {
  RecomputeKind kind = RecomputeKind::none;
  /// uniform: N; block: K; window: 0 beside selective, 1 beside full recompute
  std::int16_t layers = 0;

  friend bool operator==(PolicyCode, PolicyCode) = default;
};

/// The values a search may take. An empty list stands for all.
struct SearchFilter {
  std::vector<int> tensor;
  std::vector<int> pipeline;
  std::vector<int> data;
  std::vector<int> interleave;
  std::vector<std::int64_t> micro;
  std::vector<bool> sequence;
  std::vector<bool> distributed_optimizer;
  std::vector<ScheduleKind> schedule;
  std::vector<RecomputeKind> recompute;
  bool only_even = false;  ///< no uneven first and last stage
};

/// How far a search has come; for people.
struct SearchProgress {
  bool is_simulating = false;   ///< else it is still looking at bounds
  double done = 0;              ///< of this part, 0 to 1
  std::int64_t considered = 0;  ///< plans so far
  std::int64_t simulated = 0;
};

/// What to search for.
struct SearchRequest {
  /// Model, memory, p2p and what else is not searched. Its parallel, batch, schedule.kind,
  /// recompute, layout and memory.distributed_optimizer are replaced.
  TrainingConfig base;
  System system;
  int gpus = 1;
  std::int64_t global_batch = 1;
  int top = 10;             ///< K: how many of the fastest plans are wanted
  bool exhaustive = false;  ///< simulate every plan, dismiss none
  int jobs = 1;             ///< threads
  SearchFilter filter;
  std::function<void(SearchProgress const&)> progress = [](SearchProgress const&) {};
};

}  // namespace stagecraft
