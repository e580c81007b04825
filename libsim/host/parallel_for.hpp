#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>

#include "libsim/host/fork_gate.hpp"
#include "libsim/host/interruption.hpp"
#include "libsim/host/worker_pool.hpp"

namespace stagecraft {

/// Calls body(i) for all i below `count` on `jobs` threads, the calling one included, and returns
/// when all are done. What a call throws, one of them if several do, is thrown here, and calls that
/// have not begun are left out. What interrupts the caller interrupts the calls too
/// (Interruptible). Pre: as of OutsideCall.
template <typename Body>
void parallel_for(int jobs, std::size_t count, Body const& body) {
  std::atomic<bool> has_failed = false;
  std::exception_ptr failure;
  std::mutex failing;
  std::atomic<bool> const* const is_unwanted = interruption();
  WorkerPool pool{static_cast<int>(
      std::clamp<std::size_t>(count, 1, static_cast<std::size_t>(std::max(jobs, 1))))};
  OutsideCall const waiting;
  pool.run(static_cast<std::int64_t>(count), [&](std::int64_t i, int /*worker*/) {
    if (has_failed) return;
    try {
      InsideCall const inside;
      Interruptible const call{is_unwanted};
      throw_if_interrupted();
      body(static_cast<std::size_t>(i));
    } catch (...) {
      std::scoped_lock const lock{failing};
      failure = std::current_exception();
      has_failed = true;
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace stagecraft
