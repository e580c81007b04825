#include "libsim/sweep/point_source.hpp"

#include <algorithm>
#include <mutex>

#include "libsim/host/worker_pool.hpp"

namespace stagecraft {

PointSource::PointSource(Sweep const& sweep, Shard shard)
    : sweep_{sweep}, shard_{shard}, order_{1} {
  Start here;
  for (Start start = here; !points_from(here).empty(); start = here) starts_.push_back(start);
  if (!starts_.empty()) order_ = SpreadNumbers{static_cast<std::int64_t>(starts_.size())};
}

std::vector<std::int64_t> PointSource::points_from(Start& start) {
  std::vector<std::int64_t> points;
  for (; start.point < sweep_.points && points.size() < points_per_batch; ++start.point) {
    choose_entries(sweep_.axes, start.point, entries_);
    if (!takes_part(sweep_, entries_)) continue;
    if (shard_.has(start.ordinal++)) points.push_back(start.point);
  }
  return points;
}

std::optional<PointBatch> PointSource::next() {
  if (given_ == starts_.size()) return std::nullopt;
  ++given_;
  std::int64_t const number = order_.next();
  Start start = starts_[static_cast<std::size_t>(number)];
  return PointBatch{number, points_from(start)};
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
