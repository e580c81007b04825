#include "libsim/allocator/segment_places.hpp"

#include <catch2/catch.hpp>

#include "tests/libsim/allocator/replayed.hpp"

namespace stagecraft::segment_places_test {
namespace {

/// Takes two segments of equal size and frees them. \return whether the later one serves what is
/// asked next, which it does if it is the lower one
bool later_one_serves(SegmentPlaces const& places) {
  auto const allocator = make_allocator(AllocatorKind::pytorch, {}, unlimited_capacity);
  allocator->place_segments(places);
  BlockId const first = allocator->allocate(30 * mib, 0);
  BlockId const second = allocator->allocate(30 * mib, 0);
  std::int64_t const address = allocator->address_of(first);
  std::int64_t const later = allocator->address_of(second);
  allocator->free(first);
  allocator->free(second);
  std::int64_t const served = allocator->address_of(allocator->allocate(20 * mib, 0));
  REQUIRE((served == address || served == later));
  return served == later;
}

}  // namespace

TEST_CASE("of two free blocks of equal size the lower one serves", "[allocator]") {
  using Order = SegmentPlaces::Order;
  CHECK(!later_one_serves({}));
  CHECK(later_one_serves({Order::falling, {}}));
  CHECK(later_one_serves({Order::rising, {{200 * mib, 30 * mib, 0}, {100 * mib, 30 * mib, 0}}}));
  CHECK(!later_one_serves({Order::falling, {{100 * mib, 30 * mib, 0}, {200 * mib, 30 * mib, 0}}}));
}

TEST_CASE("segments lie as recorded until one differs, then beside all recorded ones",
          "[allocator]") {
  std::vector<RecordedSegment> const recorded{{5000, 20, 0}, {3000, 10, 0}, {4000, 10, 1}};
  SegmentAddresses falling;
  falling.follow({SegmentPlaces::Order::falling, recorded});
  CHECK(falling.take(20, 0) == 5000);
  CHECK(falling.take(10, 0) == 3000);
  CHECK(falling.take(10, 0) == 2990);  // nothing was given back before it, but was when recorded
  CHECK(falling.take(10, 1) == 2980);  // once left, the recording says nothing about the rest
  SegmentAddresses rising;
  rising.follow({SegmentPlaces::Order::rising, recorded});
  CHECK(rising.take(21, 0) == 5020);
  CHECK(rising.take(10, 0) == 5041);
  SegmentAddresses longer;
  longer.follow({SegmentPlaces::Order::falling, recorded});
  CHECK(longer.take(20, 0) == 5000);
  CHECK(longer.take(10, 0) == 3000);
  CHECK(longer.take(10, 1) == 4000);
  CHECK(longer.take(10, 1) == 2990);  // beyond the last
}

}  // namespace stagecraft::segment_places_test
