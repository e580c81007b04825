#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

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
  std::uint64_t round_ = 0;  ///< of run(); helpers wait for the next
  int busy_ = 0;             ///< helpers still in this round
  bool stop_ = false;
  ErasedTask task_;
  std::int64_t tasks_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::vector<std::thread> helpers_;
};

}  // namespace stagecraft
