#include <catch2/catch.hpp>

#include "tests/libsim/allocator/replayed.hpp"

// Expected values are worked by hand from the rules of PyTorch's CUDACachingAllocator.cpp.

namespace stagecraft::caching_allocator_test {
namespace {

AllocatorCounters end_of(std::string const& text,
                         std::string_view settings = "",
                         std::int64_t capacity = unlimited_capacity) {
  return replayed(text, settings, capacity).end;
}

}  // namespace

TEST_CASE("requests are rounded up to 512 bytes, and decide on the pool by the rounded size",
          "[allocator]") {
  auto const [request, block, segment] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t>({
      {1, 512, 2 * mib},
      {512, 512, 2 * mib},
      {513, 1024, 2 * mib},
      {mib - 511, mib, 2 * mib},
      {mib, mib, 2 * mib},
      {mib + 1, mib + 512, 20 * mib},
      {10 * mib - 512, 10 * mib - 512, 20 * mib},
      {10 * mib - 511, 10 * mib, 10 * mib},
      {10 * mib, 10 * mib, 10 * mib},
      {12 * mib, 12 * mib, 12 * mib},
  }));
  AllocatorCounters const end = end_of("a 1 " + text_of(request));
  REQUIRE(end.allocated == block);
  REQUIRE(end.reserved == segment);
  REQUIRE(end.requested == request);
  REQUIRE(end.inactive_split == segment - block);
}

TEST_CASE("a large block is split if more than 1 MiB remains, and else counts whole",
          "[allocator]") {
  // 25,000,000 round to 25,000,448 of a segment of 24 MiB; 165,376 remain.
  AllocatorCounters const whole = end_of("a 1 25000000");
  REQUIRE(whole.allocated == 25'165'824);
  REQUIRE(whole.requested == 25'000'000);
  REQUIRE(whole.inactive_split == 0);
  REQUIRE(end_of("a 1 " + text_of(13 * mib)).allocated == 14 * mib);  // exactly 1 MiB remains
  AllocatorCounters const split = end_of("a 1 " + text_of(13 * mib - 512));
  REQUIRE(split.allocated == 13 * mib - 512);
  REQUIRE(split.inactive_split == mib + 512);
}

TEST_CASE("a request of zero bytes takes no block but counts", "[allocator]") {
  AllocationReplay const result = replayed("a 1 0; r 1 3; f 1; a 1 0; q");
  REQUIRE(result.n == 2);
  REQUIRE(result.end == AllocatorCounters{});
  REQUIRE(result.checkpoints.at(0).n == 2);
}

TEST_CASE("freed neighbours join whatever their order, until the segment is whole", "[allocator]") {
  std::string const three = "a 1 512; a 2 512; a 3 512; ";
  auto const [frees, split] = GENERATE(table<std::string, std::int64_t>({
      {"f 2", 2 * mib - 1024},      // a hole, and the rest of the segment
      {"f 3", 2 * mib - 1024},      // joins the rest
      {"f 1; f 2", 2 * mib - 512},  // joins its left neighbour
      {"f 3; f 2", 2 * mib - 512},  // joins its right neighbour
      {"f 1; f 3; f 2", 0},         // joins both: the segment is whole
      {"f 2; f 3; f 1", 0},
  }));
  AllocatorCounters const end = end_of(three + frees);
  REQUIRE(end.inactive_split == split);
  REQUIRE(end.reserved == 2 * mib);
}

TEST_CASE("the smallest block that is large enough is taken, the lowest of equal ones",
          "[allocator]") {
  // Holes of 4 KiB and 2 KiB; a request of 2 KiB takes the second, so that 4 KiB still fit.
  std::string const holes = "a 1 4096; a 2 512; a 3 2048; a 4 512; f 1; f 3; ";
  AllocatorCounters const best = end_of(holes + "a 5 2048; a 6 4096");
  REQUIRE(best.allocated == 512 + 512 + 2048 + 4096);
  // Two holes of 2 KiB: after the lower one is taken, freeing 2 (between them) and 3 joins 3 KiB.
  AllocatorCounters const ties =
      end_of("a 1 2048; a 2 512; a 3 2048; a 4 512; f 1; f 3; a 5 2048; f 2");
  REQUIRE(ties.inactive_split == 512 + 2048 + (2 * mib - 5120));
  REQUIRE(ties.segments == 1);
}

TEST_CASE("streams share no blocks", "[allocator]") {
  REQUIRE(end_of("a 1 512 0; f 1; a 2 512 0").segments == 1);
  AllocatorCounters const end = end_of("a 1 512 0; f 1; a 2 512 7");
  REQUIRE(end.segments == 2);
  REQUIRE(end.reserved == 4 * mib);
}

TEST_CASE("a block that another stream uses waits for its event, unjoined", "[allocator]") {
  std::string const text = "d 10; a 1 512; a 2 512; a 3 512; r 2 1; f 2; f 1; f 3; ";
  AllocatorCounters const waiting = end_of(text);
  REQUIRE(waiting.allocated == 0);
  REQUIRE(waiting.active == 512);
  REQUIRE(waiting.requested == 512);
  REQUIRE(waiting.inactive_split == 2 * mib - 512);  // on both sides of the waiting block
  // Only an allocation looks at events, and the event is over after 10.
  REQUIRE(end_of(text + "t 10").active == 512);
  REQUIRE(end_of(text + "t 9; a 4 512").active == 1024);
  REQUIRE(end_of(text + "t 10; a 4 512").active == 512);
  REQUIRE(end_of("d 10; a 1 512; r 1 0; f 1").active == 0);  // its own stream
  REQUIRE(end_of("d 10; a 1 512; r 1 1; r 1 1; r 1 2; f 1; t 10; a 2 512").active == 512);
}

TEST_CASE("a stream's queue stops at its first unfinished event", "[allocator]") {
  std::string const text = "a 1 512; a 2 512; r 1 1; r 2 1; d 10; f 1; d 0; f 2; a 3 512";
  // The second event is over at once, but stands behind the first.
  REQUIRE(end_of(text).active == 1536);
  REQUIRE(end_of(text + "; t 10; a 4 512").active == 1024);
  // On streams of their own they do not wait for each other.
  REQUIRE(end_of("a 1 512; a 2 512; r 1 1; r 2 2; d 10; f 1; d 0; f 2; a 3 512").active == 1024);
}

TEST_CASE("divisions between powers of two round large requests up", "[allocator]") {
  auto const block = [](std::int64_t bytes, std::string_view settings) {
    return end_of("a 1 " + text_of(bytes), settings).allocated;
  };
  // Four divisions of [1024, 2048) KiB end at 1280, 1536, 1792.
  REQUIRE(block(1200 * kib, "roundup_power2_divisions:4") == 1280 * kib);
  REQUIRE(block(1280 * kib, "roundup_power2_divisions:4") == 1280 * kib);
  REQUIRE(block(mib, "roundup_power2_divisions:4") == mib);
  REQUIRE(block(1200, "roundup_power2_divisions:4") == 1536);  // not above 4 x 512
  REQUIRE(block(2049, "roundup_power2_divisions:4") == 2560);  // above
  REQUIRE(block(1900 * kib, "roundup_power2_divisions:1") == 1900 * kib);
  // The list form: 1 MiB to 2 MiB, and all below, 2; from 2 MiB 4; above 8.
  std::string_view const list = "roundup_power2_divisions:[1:2,2:4,>:8]";
  REQUIRE(block(600 * kib, list) == 768 * kib);
  REQUIRE(block(1200 * kib, list) == 1536 * kib);
  REQUIRE(block(2100 * kib, list) == 2560 * kib);
  REQUIRE(block(4100 * kib, list) == 4608 * kib);
}

TEST_CASE("oversize blocks are neither split nor given to small requests", "[allocator]") {
  constexpr std::string_view settings = "max_split_size_mb:100";
  auto const end = [&](std::string const& text) { return end_of(text, settings); };
  // A block of exactly the limit is oversize.
  REQUIRE(end("a 1 " + text_of(100 * mib) + "; f 1; a 2 " + text_of(99 * mib)).segments == 2);
  REQUIRE(end("a 1 " + text_of(98 * mib) + "; f 1; a 2 " + text_of(50 * mib)).segments == 1);
  // An oversize request takes a larger block only if less than 20 MiB are wasted.
  std::string const freed = "a 1 " + text_of(200 * mib) + "; f 1; a 2 ";
  REQUIRE(end(freed + text_of(180 * mib)).segments == 2);
  REQUIRE(end(freed + text_of(180 * mib + 512)).segments == 1);
  REQUIRE(end(freed + text_of(180 * mib + 512)).allocated == 200 * mib);
}

TEST_CASE("large_segment_size_mb packs more requests below 10 MiB into a segment", "[allocator]") {
  AllocatorCounters const end = end_of("a 1 " + text_of(9 * mib), "large_segment_size_mb:64");
  REQUIRE(end.reserved == 64 * mib);
  REQUIRE(end.inactive_split == 55 * mib);
  REQUIRE(end_of("a 1 " + text_of(10 * mib), "large_segment_size_mb:64").reserved == 10 * mib);
}

}  // namespace stagecraft::caching_allocator_test
