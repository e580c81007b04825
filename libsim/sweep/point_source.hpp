#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "libsim/sweep/shard.hpp"
#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// Some points that are evaluated together. Which points form a batch depends on sweep and shard
/// only.
struct PointBatch {
  std::int64_t number = 0;
  std::vector<std::int64_t> points;
};

/// Goes through the points of a shard, one batch after the other, holding none but these.
class PointSource {
 public:
  /// `sweep` must outlive this object.
  PointSource(Sweep const& sweep, Shard shard) : sweep_{sweep}, shard_{shard} {}

  /// The next batch; nothing after the last.
  std::optional<PointBatch> next();

 private:
  Sweep const& sweep_;
  Shard shard_;
  std::int64_t point_ = 0;
  std::int64_t ordinal_ = 0;
  std::int64_t batch_ = 0;
  std::vector<std::size_t> entries_;
};

/// How many points meet the conditions. `progress` is told the part that has been looked at, by one
/// thread at a time.
std::int64_t count_points(Sweep const& sweep,
                          int jobs,
                          std::function<void(double done)> const& progress);

}  // namespace stagecraft
