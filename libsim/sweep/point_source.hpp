#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "libsim/sweep/shard.hpp"
#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// Points of a batch; the last of a sweep may have fewer.
inline constexpr std::size_t points_per_batch = 16;

/// Points that are evaluated together. Which points form a batch depends only on the sweep and the
/// shard.
struct PointBatch {
  std::int64_t number = 0;
  std::vector<std::int64_t> points;
};

/// Generates the points of a shard batch by batch, so that only one batch is in memory.
class PointSource {
 public:
  /// `sweep` must outlive this object.
  PointSource(Sweep const& sweep, Shard shard) : sweep_{sweep}, shard_{shard} {}

  /// The next batch; nullopt after the last.
  std::optional<PointBatch> next();

 private:
  Sweep const& sweep_;
  Shard shard_;
  std::int64_t point_ = 0;
  std::int64_t ordinal_ = 0;
  std::int64_t batch_ = 0;
  std::vector<std::size_t> entries_;
};

/// The number of points that meet the conditions. `progress` is called with the fraction that has
/// been examined, by one thread at a time.
std::int64_t count_points(Sweep const& sweep,
                          int jobs,
                          std::function<void(double done)> const& progress);

}  // namespace stagecraft
