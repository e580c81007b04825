#include "libsim/allocator/growth_watch.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "libsim/allocator/caching_allocator.hpp"

namespace stagecraft::growth_watch_test {
namespace {

constexpr std::int64_t mib = std::int64_t{1} << 20;

/// A request for so many bytes; or, if negative, the release of the request of that index, from 1.
using Round = std::vector<std::int64_t>;

/// Runs a round, and releases what it leaves. \return by request: the address that it got
std::vector<std::int64_t> run(CachingAllocator& allocator, Round const& round) {
  std::vector<BlockId> blocks;
  std::vector<std::int64_t> addresses;
  for (std::int64_t const entry : round) {
    if (entry < 0) {
      BlockId& block = blocks[static_cast<std::size_t>(-entry - 1)];
      allocator.free(block);
      block = no_block;
      continue;
    }
    std::vector<MemoryBlock> const before = allocator.blocks();
    blocks.push_back(allocator.allocate(entry, 0));
    for (MemoryBlock const& block : allocator.blocks()) {
      bool const was_live = std::any_of(before.begin(), before.end(), [&](MemoryBlock const& old) {
        return old.is_live && old.address == block.address;
      });
      if (block.is_live && !was_live) addresses.push_back(block.address);
    }
  }
  for (BlockId const block : blocks) {
    if (block != no_block) allocator.free(block);
  }
  return addresses;
}

struct Rounds {
  bool grows = false;       ///< the watched round takes memory
  bool is_certain = false;  ///< that the next one would take none
  bool is_alike = false;    ///< the next one takes none and places all alike
};

Rounds two_rounds(CachingAllocator& allocator, Round const& round) {
  allocator.watch_round();
  std::int64_t const before = allocator.counters().device_alloc;
  std::vector<std::int64_t> const first = run(allocator, round);
  AllocatorCounters const after = allocator.counters();
  bool const is_certain = allocator.would_repeat_round();
  std::vector<std::int64_t> const second = run(allocator, round);
  return {.grows = after.device_alloc > before,
          .is_certain = is_certain,
          .is_alike = first == second && allocator.counters() == after};
}

Round random_round(std::mt19937& random) {
  // Sizes of a layer's tensors; two thirds of them get segments of their own.
  constexpr std::array<std::int64_t, 8> sizes{2048,     3 * mib,  6 * mib,  18 * mib,
                                              24 * mib, 48 * mib, 96 * mib, 100'000};
  Round round;
  std::vector<std::int64_t> live;
  std::int64_t requests = 0;
  for (int i = 0; i < 60; ++i) {
    if (live.empty() || random() % 5 < 3) {
      round.push_back(sizes[random() % sizes.size()]);
      live.push_back(++requests);
    } else {
      std::size_t const chosen = random() % live.size();
      round.push_back(-live[chosen]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
  }
  return round;
}

}  // namespace

TEST_CASE("a round that would place all alike takes no memory when it runs again", "[allocator]") {
  std::mt19937 random{18};
  int certain = 0;
  for (int i = 0; i < 300; ++i) {
    CachingAllocator allocator{{}, unlimited_capacity};
    Round const round = random_round(random);
    // A round without some of the requests leaves memory behind, and buffers that stay take some.
    if (i % 3 > 0) run(allocator, random_round(random));
    for (int kept = 0; kept < 2; ++kept) allocator.allocate((kept + 5) * mib, 0);
    Rounds const rounds = two_rounds(allocator, round);
    CAPTURE(i);
    if (rounds.is_certain) REQUIRE(rounds.is_alike);
    if (!rounds.grows) REQUIRE(rounds.is_certain);
    certain += rounds.grows && rounds.is_certain ? 1 : 0;
  }
  REQUIRE(certain >= 20);  // else nothing was tested
}

TEST_CASE("a segment that would have served an earlier request better leaves nothing certain",
          "[allocator]") {
  CachingAllocator allocator{{}, unlimited_capacity};
  allocator.free(allocator.allocate(30 * mib, 0));
  // 11 MiB are cut from the 30, 19 remain, and 24 need a segment, in which 11 fit better than in
  // the 30: they go there, and the 24 into the 30.
  Rounds const rounds = two_rounds(allocator, {11 * mib, 24 * mib});
  REQUIRE(rounds.grows);
  REQUIRE_FALSE(rounds.is_certain);
  REQUIRE_FALSE(rounds.is_alike);
}

TEST_CASE("only rounds of one stream that depend on sizes alone are certain", "[allocator]") {
  auto const is_certain = [](AllocatorSettings const& settings, std::int32_t stream) {
    CachingAllocator allocator{settings, unlimited_capacity};
    allocator.free(allocator.allocate(2048, 0));
    allocator.watch_round();
    allocator.free(allocator.allocate(24 * mib, stream));
    return allocator.would_repeat_round();
  };
  REQUIRE(is_certain({}, 0));
  REQUIRE_FALSE(is_certain({}, 1));
  AllocatorSettings expandable;
  expandable.expandable_segments = true;
  REQUIRE_FALSE(is_certain(expandable, 0));
  AllocatorSettings oversize;
  oversize.max_split_size = 64 * mib;
  REQUIRE_FALSE(is_certain(oversize, 0));
}

TEST_CASE("a round in which segments are given back is not certain", "[allocator]") {
  CachingAllocator allocator{{}, 64 * mib};
  allocator.free(allocator.allocate(40 * mib, 0));
  allocator.watch_round();
  allocator.free(allocator.allocate(60 * mib, 0));  // releases the 40
  REQUIRE(allocator.counters().retries == 1);
  REQUIRE_FALSE(allocator.would_repeat_round());
}

}  // namespace stagecraft::growth_watch_test
