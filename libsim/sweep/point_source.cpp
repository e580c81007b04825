#include "libsim/sweep/point_source.hpp"

#include <algorithm>
#include <mutex>

#include "libsim/host/parallel_for.hpp"

namespace stagecraft {

std::optional<PointBatch> PointSource::next() {
  PointBatch batch{batch_, {}};
  for (; point_ < sweep_.points && batch.points.size() < points_per_batch; ++point_) {
    choose_entries(sweep_.axes, point_, entries_);
    if (!takes_part(sweep_, entries_)) continue;
    if (shard_.has(ordinal_++)) batch.points.push_back(point_);
  }
  if (batch.points.empty()) return std::nullopt;
  ++batch_;
  return batch;
}

std::int64_t count_points(Sweep const& sweep,
                          int jobs,
                          std::function<void(double done)> const& progress) {
  if (sweep.filter.conditions().empty()) return sweep.points;
  constexpr std::int64_t piece = 1 << 16;
  auto const pieces = static_cast<std::size_t>((sweep.points + piece - 1) / piece);
  std::mutex summing;
  std::int64_t count = 0;
  std::size_t done = 0;
  parallel_for(jobs, pieces, [&](std::size_t i) {
    std::int64_t const first = static_cast<std::int64_t>(i) * piece;
    std::int64_t passed = 0;
    std::vector<std::size_t> entries;
    for (std::int64_t point = first; point < std::min(first + piece, sweep.points); ++point) {
      choose_entries(sweep.axes, point, entries);
      if (takes_part(sweep, entries)) ++passed;
    }
    std::lock_guard const lock{summing};
    count += passed;
    progress(static_cast<double>(++done) / static_cast<double>(pieces));
  });
  return count;
}

}  // namespace stagecraft
