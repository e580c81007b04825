#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "libsim/sweep/shard.hpp"
#include "libsim/sweep/spread_numbers.hpp"
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

/// Generates the points of a shard batch by batch, so that only one batch is in memory. The batches
/// come in an order that is spread evenly over the shard: whatever part of them has been evaluated
/// takes that part of the time, though points along an axis may differ a lot in what they cost.
class PointSource {
 public:
  /// `sweep` must outlive this object.
  PointSource(Sweep const& sweep, Shard shard);

  /// The next batch; nullopt after the last.
  std::optional<PointBatch> next();

 private:
  /// Where the search for the points of a batch begins.
  struct Start {
    std::int64_t point = 0;
    std::int64_t ordinal = 0;  ///< included points before it
  };

  /// The points of the batch that begins at `start`, which is moved behind them.
  std::vector<std::int64_t> points_from(Start& start);

  Sweep const& sweep_;
  Shard shard_;
  std::vector<Start> starts_;  ///< of all batches
  SpreadNumbers order_;        ///< of batches
  std::size_t given_ = 0;      ///< batches
  std::vector<std::size_t> entries_;
};

/// The number of points that meet the conditions. `progress` is called with the fraction that has
/// been examined, by one thread at a time.
std::int64_t count_points(Sweep const& sweep,
                          int jobs,
                          std::function<void(double done)> const& progress);

}  // namespace stagecraft
