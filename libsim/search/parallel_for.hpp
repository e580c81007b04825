#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace stagecraft {

/// Calls body(i) for all i below `count` on `jobs` threads, the calling one included, and returns
/// when all are done. What a call throws, one of them if several do, is thrown here.
template <typename Body>
void parallel_for(int jobs, std::size_t count, Body const& body) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  auto const work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        std::lock_guard const lock{failing};
        failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 1; i < jobs && static_cast<std::size_t>(i) < count; ++i)
      threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace stagecraft
