#include "libsim/host/fork_gate.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "libsim/host/worker_pool.hpp"

namespace stagecraft::fork_gate_test {
namespace {

using namespace std::chrono_literals;

/// The exit code of a forked process that runs `child`; -1 if it does not end by itself.
template <typename Child>
int fork_and_wait(Child const& child) {
  pid_t const process = fork();
  if (process == 0) {
    alarm(30);
    _exit(child());
  }
  int status = 0;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("a fork waits for the calls that other threads are inside", "[host]") {
  make_forks_wait();
  std::mutex shared;
  std::atomic<bool> has_begun = false;
  std::atomic<bool> is_over = false;
  std::thread other{[&] {
    InsideCall const call;
    std::scoped_lock const lock{shared};
    has_begun = true;
    std::this_thread::sleep_for(100ms);
    is_over = true;
  }};
  while (!has_begun) std::this_thread::yield();
  // Without the gate the child would wait for a lock of a thread that it does not have.
  REQUIRE(fork_and_wait([&] {
            std::scoped_lock const lock{shared};
            return is_over ? 0 : 1;
          }) == 0);
  other.join();
}

// Worker threads allocate and free between two parts, when forks pass, and GCC 12's address
// sanitizer leaves the locks of its allocator in the child as they are.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("forks pass between the parts of long work, nested work included", "[host]") {
  make_forks_wait();
  std::atomic<bool> is_over = false;
  std::atomic<std::int64_t> done = 0;
  std::thread other{[&] {
    InsideCall const call;
    while (!is_over) {
      parallel_for(3, 6, [&](std::size_t) {
        parallel_for(2, 4, [&](std::size_t) { ++done; });
        let_forks_pass();
      });
    }
  }};
  for (int i = 0; i < 50; ++i) {
    REQUIRE(fork_and_wait([] {
              std::atomic<int> sum = 0;
              parallel_for(2, 8, [&](std::size_t i) { sum += static_cast<int>(i); });
              return sum == 28 ? 0 : 1;
            }) == 0);
  }
  is_over = true;
  other.join();
  REQUIRE(done % 24 == 0);  // nothing was lost
}
#endif

TEST_CASE("a thread that is inside a call may fork itself", "[host]") {
  make_forks_wait();
  InsideCall const call;
  REQUIRE(fork_and_wait([] {
            InsideCall const nested;
            return 0;
          }) == 0);
}

}  // namespace stagecraft::fork_gate_test
