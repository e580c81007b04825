#include <catch2/catch.hpp>

#include "tests/libsim/allocator/replayed.hpp"

// Expected values are worked by hand from the rules of PyTorch's CUDACachingAllocator.cpp.

namespace stagecraft::expandable_segments_test {
namespace {

AllocatorCounters end_of(std::string const& text,
                         std::int64_t capacity = unlimited_capacity,
                         std::string_view settings = "expandable_segments:True") {
  return replayed(text, settings, capacity).end;
}

}  // namespace

TEST_CASE("expandable segments map whole pages, 2 MiB for small and 20 MiB for large blocks",
          "[allocator]") {
  REQUIRE(end_of("a 1 512").reserved == 2 * mib);
  REQUIRE(end_of("a 1 " + text_of(2 * mib)).reserved == 20 * mib);
  AllocatorCounters const end = end_of("a 1 " + text_of(30 * mib));
  REQUIRE(end.reserved == 40 * mib);
  REQUIRE(end.allocated == 30 * mib);
  REQUIRE(end.segments == 0);
  REQUIRE(end.inactive_split == 0);
  REQUIRE(end_of("a 1 " + text_of(30 * mib), unlimited_capacity,
                 "expandable_segments:True,large_segment_size_mb:32")
              .reserved == 32 * mib);
}

TEST_CASE("a request grows the free end of an expandable segment", "[allocator]") {
  // 10 MiB are free at the end of 40; a request of 45 maps two pages more, not three.
  AllocatorCounters const end = end_of("a 1 " + text_of(30 * mib) + "; a 2 " + text_of(45 * mib));
  REQUIRE(end.reserved == 80 * mib);
  REQUIRE(end.device_alloc == 2);
}

TEST_CASE("the rest of an expandable block is split off from 512 bytes on", "[allocator]") {
  AllocatorCounters const end =
      end_of("a 1 " + text_of(20 * mib - 512) + "; a 2 " + text_of(2 * mib));
  REQUIRE(end.allocated == 22 * mib - 512);
  REQUIRE(end.reserved == 40 * mib);
}

TEST_CASE("a retry unmaps the whole pages inside free blocks, also between live ones",
          "[allocator]") {
  // 10 + 50 + 10 MiB in 80; the hole has two whole pages (20 to 60).
  std::string const text = "a 1 " + text_of(10 * mib) + "; a 2 " + text_of(50 * mib) + "; a 3 " +
                           text_of(10 * mib) + "; f 2; ";
  AllocatorCounters const emptied = end_of(text + "e");
  REQUIRE(emptied.reserved == 40 * mib);
  REQUIRE(emptied.device_free == 1);  // the 10 MiB at the end do not fill a page
  // The pages serve the other pool.
  AllocationReplay const moved = replayed(text + "a 4 512", "expandable_segments:True", 80 * mib);
  REQUIRE(!moved.oom_at);
  REQUIRE(moved.end.retries == 1);
  REQUIRE(moved.end.reserved == 42 * mib);
  // A hole without memory is mapped again before the end grows.
  AllocatorCounters const again = end_of(text + "e; a 4 " + text_of(50 * mib));
  REQUIRE(again.reserved == 80 * mib);
}

TEST_CASE("the free block that can grow least is the best fit", "[allocator]") {
  // Free: 6 MiB in the middle, 6 MiB at the end, which could grow. The middle one is taken.
  std::string const text = "a 1 " + text_of(6 * mib) + "; a 2 " + text_of(8 * mib) + "; f 1; ";
  AllocatorCounters const end =
      end_of(text + "a 3 " + text_of(6 * mib) + "; a 4 " + text_of(6 * mib));
  REQUIRE(end.reserved == 20 * mib);
}

TEST_CASE("a page that the device refuses ends in out of memory", "[allocator]") {
  AllocationReplay const result =
      replayed("a 1 " + text_of(30 * mib) + "; a 2 " + text_of(30 * mib),
               "expandable_segments:True", 50 * mib);
  REQUIRE(result.oom_at == 2);
  REQUIRE(result.end.reserved == 40 * mib);
  REQUIRE(result.end.device_used == 40 * mib);
}

TEST_CASE("a reservation bounds what one segment can grow to", "[allocator]") {
  std::string const text = "a 1 " + text_of(30 * mib);
  REQUIRE(replayed(text, "expandable_segments:True,expandable_segments_reserve:0.2", 100 * mib)
              .oom_at == 1);
  // Two segments of 40 MiB: the second request does not fit behind the first.
  AllocationReplay const two =
      replayed(text + "; a 2 " + text_of(20 * mib),
               "expandable_segments:True,expandable_segments_reserve:0.4", 100 * mib);
  REQUIRE(!two.oom_at);
  REQUIRE(two.end.reserved == 60 * mib);
}

}  // namespace stagecraft::expandable_segments_test
