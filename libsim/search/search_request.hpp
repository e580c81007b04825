#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The families of recompute policies that a search considers.
enum class RecomputeKind : std::uint8_t {
  none,
  selective,  ///< core attention
  modules,    ///< selective, of a set of modules (module_policies())
  uniform,    ///< full, in groups of N layers
  block,      ///< full, the first K layers of each chunk
  per_stage,  ///< for each stage, the one of the policies above that fits and costs the least time
  window,     ///< selective or full, with as many microbatches stored as fit (appendix C)
};

/// A policy in a compact form.
struct PolicyCode {
  RecomputeKind kind = RecomputeKind::none;
  /// uniform: N; block: K; window: 0 with selective, 1 with full recompute; modules: a bit for each
  /// of recompute_regions().
  std::int32_t layers = 0;

  friend auto operator<=>(PolicyCode const&, PolicyCode const&) = default;
};

/// The values that a search may use. An empty list means all, but for `sharding`.
struct SearchFilter {
  std::vector<int> tensor;
  std::vector<int> pipeline;
  std::vector<int> data;
  std::vector<int> interleave;
  std::vector<std::int64_t> micro;
  std::vector<int> expert;         ///< ranks that split the experts of a layer
  std::vector<int> expert_tensor;  ///< ranks that share each expert's weights
  std::vector<int> context;        ///< ranks that split each sequence
  std::vector<bool> sequence;
  std::vector<ShardingKind> sharding;  ///< empty: those that the software stack has
  /// Types of kinds with units; nullopt: the kind's own.
  std::optional<UnitType> stored_dtype;
  std::optional<UnitType> parameter_dtype;
  std::optional<UnitType> reduce_dtype;
  std::optional<ShardingStrategy> strategy;  ///< of Megatron-FSDP; nullopt: each of them
  std::vector<ScheduleKind> schedule;        ///< those that is_searched() knows (search_space.hpp)
  std::vector<P2p> p2p;                      ///< of runs with several stages
  std::vector<RecomputeKind> recompute;
  bool only_even = false;  ///< no uneven first and last stage
};

/// How far a search has come, for a progress display.
struct SearchProgress {
  /// The parts in order: bounds, then simulations; with experts, both shape by shape. Schedules
  /// that follow an order come last.
  enum class Part : std::uint8_t { bounds, simulations, shapes, orders };
  Part part = Part::bounds;
  double done = 0;              ///< share of the part, 0 to 1; never falls
  std::int64_t considered = 0;  ///< plans so far
  std::int64_t simulated = 0;
};

/// What to search for.
struct SearchRequest {
  /// The model and all keys that are not searched. Its parallel, batch, schedule.kind, recompute,
  /// layout and sharding are replaced.
  TrainingConfig base;
  System system;
  int gpus = 1;
  std::int64_t global_batch = 1;
  int top = 10;             ///< K: number of fastest plans to return
  bool exhaustive = false;  ///< simulates every plan and dismisses none
  int jobs = 1;             ///< threads
  /// Bytes that each stage leaves on its device: the least `margin_bytes` of `simulate`.
  std::int64_t margin = 0;
  /// The least probability that a plan does not die of memory; 0: not asked.
  double safety = 0;
  SearchFilter filter;
  /// Whether the software stack recomputes sets of modules that one chooses.
  bool recomputes_modules = true;
  /// Whether a plan belongs to the space; windows are still `auto`. Empty: all do. Threads share
  /// it.
  std::function<bool(TrainingConfig const&)> is_wanted{};
  /// Selects the plans among which SearchResult::best_launchable is sought. Empty: it is not
  /// sought. Threads share it, too.
  std::function<bool(TrainingConfig const&)> is_launchable{};
  std::function<void(SearchProgress const&)> progress = [](SearchProgress const&) {};
};

}  // namespace stagecraft
