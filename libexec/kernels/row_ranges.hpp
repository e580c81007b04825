#pragma once

#include <algorithm>
#include <cstdint>

#include "libsim/host/worker_pool.hpp"

namespace stagecraft {

/// Calls body(begin, end) for ranges that together are [0, rows), concurrently if there is enough
/// work. `row_cost`: elements per row.
template <typename Body>
void for_row_ranges(WorkerPool& pool, std::int64_t rows, std::int64_t row_cost, Body const& body) {
  // 16 Ki elements take about 10 us, as long as waking a thread.
  constexpr std::int64_t elements_per_task = 16384;
  std::int64_t const cost = std::max<std::int64_t>(row_cost, 1);
  std::int64_t const rows_per_task = std::max<std::int64_t>(elements_per_task / cost, 1);
  std::int64_t const tasks = (rows + rows_per_task - 1) / rows_per_task;
  pool.run(tasks, [&](std::int64_t task, int) {
    std::int64_t const begin = task * rows_per_task;
    body(begin, std::min(begin + rows_per_task, rows));
  });
}

}  // namespace stagecraft
