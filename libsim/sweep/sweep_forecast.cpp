#include "libsim/sweep/sweep_forecast.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <vector>

#include "libsim/host/worker_pool.hpp"
#include "libsim/sweep/evaluate_point.hpp"
#include "libsim/sweep/point_source.hpp"
#include "libsim/sweep/spread_numbers.hpp"

namespace stagecraft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t most_measured = 24;
constexpr std::chrono::milliseconds longest_trial{700};

/// Batches of neighbouring points that meet the conditions, spread over the sweep. Threads may
/// share it.
class SpreadBatches {
 public:
  explicit SpreadBatches(Sweep const& sweep) : sweep_{sweep}, starts_{sweep.points} {}

  /// Empty if there are no more.
  std::vector<std::int64_t> next() {
    std::scoped_lock const lock{taking_};
    std::vector<std::int64_t> points;
    std::vector<std::size_t> entries;
    while (points.empty() && looked_at_ < most_looked_at_ && taken_ < sweep_.points) {
      std::int64_t const start = starts_.next();
      ++taken_;
      for (std::int64_t point = start; point < sweep_.points && point < start + neighbourhood_ &&
                                       points.size() < points_per_batch;
           ++point, ++looked_at_) {
        choose_entries(sweep_.axes, point, entries);
        if (takes_part(sweep_, entries)) points.push_back(point);
      }
    }
    return points;
  }

 private:
  static constexpr std::int64_t most_looked_at_ = 1 << 16;  ///< points
  static constexpr std::int64_t neighbourhood_ = 16 * static_cast<std::int64_t>(points_per_batch);

  Sweep const& sweep_;
  SpreadNumbers starts_;
  std::int64_t taken_ = 0;
  std::int64_t looked_at_ = 0;
  std::mutex taking_;
};

/// Points and the time of a thread that they took.
struct Measured {
  double points = 0;
  double seconds = 0;
};

Measured simulate_batch(Sweep const& sweep, std::vector<std::int64_t> const& points) {
  Clock::time_point const begin = Clock::now();
  for (std::int64_t const point : points) static_cast<void>(evaluate_point(sweep, point));
  std::chrono::duration<double> const seconds = Clock::now() - begin;
  return {static_cast<double>(points.size()), seconds.count()};
}

}  // namespace

double points_per_second(Sweep const& sweep, int jobs) {
  SpreadBatches batches{sweep};
  std::mutex summing;
  double rate = 0;
  Clock::time_point const end = Clock::now() + longest_trial;
  parallel_for(jobs, static_cast<std::size_t>(jobs), [&](std::size_t /*thread*/) {
    Measured sum;
    for (std::int64_t batch = 0; batch < most_measured && Clock::now() < end; ++batch) {
      std::vector<std::int64_t> const points = batches.next();
      if (points.empty()) break;
      Measured measured = simulate_batch(sweep, points);
      if (Clock::now() < end) measured = simulate_batch(sweep, points);
      sum.points += measured.points;
      sum.seconds += measured.seconds;
    }
    std::scoped_lock const lock{summing};
    if (sum.seconds > 0) rate += sum.points / sum.seconds;
  });
  return rate;
}

}  // namespace stagecraft
