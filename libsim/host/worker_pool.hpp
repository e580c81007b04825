#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "libsim/host/fork_gate.hpp"
#include "libsim/host/interruption.hpp"

namespace stagecraft {

/// Threads that share the tasks of one run at a time. Which thread runs a task is left to
/// chance, so a task's result must not depend on it: work is cut by its size, never by the number
/// of threads.
///
/// A pool serves one caller at a time. With one thread there is no other than the caller's.
class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  WorkerPool(WorkerPool const&) = delete;
  WorkerPool& operator=(WorkerPool const&) = delete;
  WorkerPool(WorkerPool&&) = delete;
  WorkerPool& operator=(WorkerPool&&) = delete;
  ~WorkerPool();

  /// The caller's among them.
  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  /// Calls task(index, worker) for every index below `tasks`, and returns when all are done. A task
  /// must not throw. 0 <= worker < threads(); no two tasks of a worker run at once.
  template <typename Task>
  void run(std::int64_t tasks, Task const& task) {
    run_erased(tasks, {&task, [](void const* erased, std::int64_t index, int worker) {
                         (*static_cast<Task const*>(erased))(index, worker);
                       }});
  }

 private:
  struct ErasedTask {
    void const* task = nullptr;
    void (*call)(void const*, std::int64_t, int) = nullptr;
  };

  void run_erased(std::int64_t tasks, ErasedTask task);
  void help(int worker);
  void work_off(ErasedTask task, std::int64_t tasks, int worker);

  std::mutex mutex_;
  std::condition_variable begin_;
  std::condition_variable end_;
  std::uint64_t round_ = 0;  ///< the number of calls of run(); helpers wait for the next
  int busy_ = 0;             ///< helpers still in this round
  bool stop_ = false;
  ErasedTask task_;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::vector<std::thread> helpers_;
};

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
