#include "libsim/host/worker_pool.hpp"

#include <stdexcept>
#include <string>

namespace stagecraft {

WorkerPool::WorkerPool(int threads) {
  if (threads < 1) {
    throw std::invalid_argument("worker pool: found " + std::to_string(threads) +
                                " threads; accepted: 1 or more");
  }
  helpers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int worker = 1; worker < threads; ++worker) {
    helpers_.emplace_back([this, worker] { help(worker); });
  }
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard<std::mutex> const lock(mutex_);
    stop_ = true;
  }
  begin_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void WorkerPool::work_off(ErasedTask task, std::int64_t tasks, int worker) {
  for (std::int64_t index = next_.fetch_add(1, std::memory_order_relaxed); index < tasks;
       index = next_.fetch_add(1, std::memory_order_relaxed)) {
    task.call(task.task, index, worker);
  }
}

void WorkerPool::run_erased(std::int64_t tasks, ErasedTask task) {
  if (helpers_.empty() || tasks <= 1) {
    for (std::int64_t index = 0; index < tasks; ++index) task.call(task.task, index, 0);
    return;
  }
  {
    std::lock_guard<std::mutex> const lock(mutex_);
    task_ = task;
    tasks_ = tasks;
    next_.store(0, std::memory_order_relaxed);
    busy_ = static_cast<int>(helpers_.size());
    ++round_;
  }
  begin_.notify_all();
  work_off(task, tasks, 0);
  std::unique_lock<std::mutex> lock(mutex_);
  end_.wait(lock, [this] { return busy_ == 0; });
}

void WorkerPool::help(int worker) {
  std::uint64_t round = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    begin_.wait(lock, [&] { return stop_ || round_ != round; });
    if (stop_) return;
    round = round_;
    ErasedTask const task = task_;
    std::int64_t const tasks = tasks_;
    lock.unlock();
    work_off(task, tasks, worker);
    lock.lock();
    if (--busy_ == 0) end_.notify_one();
  }
}

}  // namespace stagecraft
