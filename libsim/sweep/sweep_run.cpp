#include "libsim/sweep/sweep_run.hpp"

#include <atomic>
#include <mutex>

#include "libsim/host/interruption.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/sweep/evaluate_point.hpp"
#include "libsim/sweep/point_source.hpp"

namespace stagecraft {

void run_sweep(Sweep const& sweep,
               Shard shard,
               int jobs,
               SweepJournal& journal,
               std::function<void(std::int64_t rows)> const& progress) {
  PointSource source{sweep, shard};
  std::mutex taking;
  std::mutex writing;
  std::atomic<bool> has_failed = false;
  auto const next_missing = [&] {
    std::lock_guard const lock{taking};
    auto batch = source.next();
    while (batch) {
      std::lock_guard const reading{writing};
      if (!journal.has(batch->number)) break;
      batch = source.next();
    }
    return batch;
  };
  parallel_for(jobs, static_cast<std::size_t>(jobs), [&](std::size_t /*thread*/) {
    try {
      while (!has_failed) {
        auto const batch = next_missing();
        if (!batch) return;
        std::vector<SweepRow> rows;
        for (std::int64_t const point : batch->points) {
          throw_if_interrupted();
          rows.push_back(evaluate_point(sweep, point));
        }
        std::lock_guard const lock{writing};
        if (has_failed) return;
        journal.append(batch->number, rows);
        progress(journal.rows());
      }
    } catch (...) {
      has_failed = true;
      throw;
    }
  });
}

}  // namespace stagecraft
