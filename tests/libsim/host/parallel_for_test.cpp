#include <catch2/catch.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "libsim/host/worker_pool.hpp"

namespace stagecraft::parallel_for_test {
namespace {

TEST_CASE("each index is called once, whatever the number of threads", "[host]") {
  int const jobs = GENERATE(1, 2, 7, 100);
  std::size_t const count = GENERATE(0, 1, 50);
  std::vector<int> calls(count);
  parallel_for(jobs, count, [&](std::size_t i) { ++calls[i]; });
  REQUIRE(calls == std::vector<int>(count, 1));
}

TEST_CASE("what a call throws is thrown by the caller, and the rest is left out", "[host]") {
  std::vector<int> calls(1000);
  auto const body = [&](std::size_t i) {
    if (i == 3) throw std::runtime_error{"three"};
    ++calls[i];
  };
  REQUIRE_THROWS_WITH(parallel_for(1, calls.size(), body), "three");
  REQUIRE(std::accumulate(calls.begin(), calls.end(), 0) == 3);
  REQUIRE_THROWS_WITH(parallel_for(4, calls.size(), body), "three");
}

}  // namespace
}  // namespace stagecraft::parallel_for_test
