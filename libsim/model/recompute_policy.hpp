#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace stagecraft {

enum class RecomputeGranularity : std::uint8_t { none, selective, full };
enum class RecomputeMethod : std::uint8_t { uniform, block };

/// When recompute runs. no: as part of the backward, right before the ops that read its results.
/// bubble: as a task of its own for the whole chunk, while the schedule has a bubble.
enum class EarlyRecompute : std::uint8_t { no, bubble };

/// What a split backward does with recomputed inputs of weight gradients: it keeps them from the
/// input gradient on, or recomputes them again. No effect on a whole backward.
enum class WeightRecompute : std::uint8_t { keep, again };

/// The number of microbatches in flight that store all activations (Korthikanti et al. 2022,
/// appendix C). The others follow the policy.
struct StoreMicrobatches {
  bool automatic = false;  ///< as many as fit
  int count = 0;           ///< if not automatic

  friend bool operator==(StoreMicrobatches const&, StoreMicrobatches const&) = default;
};

/// What a stage recomputes in its backward pass instead of storing it.
struct RecomputePolicy {
  RecomputeGranularity granularity = RecomputeGranularity::none;
  std::vector<std::string> modules{"core_attention"};  ///< selective only: names of regions
  RecomputeMethod method = RecomputeMethod::uniform;   ///< full only
  /// Full only. uniform: layers per checkpoint group; block: how many layers of each chunk, from
  /// its first on, are checkpointed one by one.
  int layers = 1;
  /// Full without sequence parallelism: each rank keeps 1/t of a checkpoint; backward gathers it.
  bool sharded_checkpoints = false;
  /// A checkpoint computes again only up to the last op whose output backward reads.
  /// Source: PyTorch 2.1, torch/utils/checkpoint.py, set_checkpoint_early_stop, of checkpoints that
  /// are not reentrant. Empty: as the software stack's do.
  std::optional<bool> early_stop{};
  StoreMicrobatches store_microbatches{};
  EarlyRecompute early = EarlyRecompute::no;
  WeightRecompute for_weights = WeightRecompute::keep;

  friend bool operator==(RecomputePolicy const&, RecomputePolicy const&) = default;
};

}  // namespace stagecraft
