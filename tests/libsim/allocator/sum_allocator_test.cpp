#include <catch2/catch.hpp>

#include "libsim/allocator/make_allocator.hpp"
#include "tests/libsim/allocator/replayed.hpp"

namespace stagecraft::sum_allocator_test {
namespace {

AllocationReplay replayed_by(AllocatorKind kind, std::string text, std::int64_t capacity) {
  for (char& c : text) c = c == ';' ? '\n' : c;
  return replay(read_sequence_text(text, "test"), *make_allocator(kind, {}, capacity));
}

}  // namespace

TEST_CASE("an arena reserves the largest sum of what is live", "[allocator]") {
  AllocationReplay const result =
      replayed_by(AllocatorKind::arena, "a 1 100; a 2 50; f 1; a 3 90; f 2; q", 150);
  REQUIRE(!result.oom_at);
  REQUIRE(result.end.peak_reserved == 150);
  REQUIRE(result.end.allocated == 90);
  REQUIRE(replayed_by(AllocatorKind::arena, "a 1 100; a 2 50; f 1; a 3 101", 150).oom_at == 3);
}

TEST_CASE("the driver's pool keeps whole pages until the cache is emptied", "[allocator]") {
  AllocationReplay const result = replayed_by(
      AllocatorKind::cuda_async, "a 1 3000000; a 2 1; f 1; q; e; q; F 0.5; a 3 9000000", 16 * mib);
  REQUIRE(result.checkpoints.at(0).reserved == 4 * mib);
  REQUIRE(result.checkpoints.at(1).reserved == 2 * mib);
  REQUIRE(result.oom_at == 3);
}

TEST_CASE("the backend cudaMallocAsync is the driver's pool", "[allocator]") {
  AllocationReplay const result = replayed("a 1 3000000; q", "backend:cudaMallocAsync");
  REQUIRE(result.end.reserved == 4 * mib);
  REQUIRE(result.end.allocated == 3'000'000);
}

}  // namespace stagecraft::sum_allocator_test
