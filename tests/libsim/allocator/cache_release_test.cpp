#include <catch2/catch.hpp>

#include "tests/libsim/allocator/replayed.hpp"

// Expected values are worked by hand from the rules of PyTorch's CUDACachingAllocator.cpp.

namespace stagecraft::cache_release_test {

TEST_CASE("whole free segments of every stream go back before a request fails", "[allocator]") {
  std::string const text =
      "a 1 512 1; f 1; a 2 " + text_of(30 * mib) + " 2; f 2; a 3 " + text_of(60 * mib) + " 0";
  AllocationReplay const result = replayed(text, "", 64 * mib);
  REQUIRE(!result.oom_at);
  REQUIRE(result.end.retries == 1);
  REQUIRE(result.end.device_alloc == 3);
  REQUIRE(result.end.device_free == 2);
  REQUIRE(result.end.reserved == 60 * mib);
  REQUIRE(result.end.peak_reserved == 60 * mib);
}

TEST_CASE("a run dies though more is free than it asks for, if segments are split", "[allocator]") {
  // Each of four segments of 20 MiB keeps one live block of 2 MiB: 72 MiB are free.
  std::string text;
  for (int i = 0; i < 4; ++i) {
    std::string const small = std::to_string(2 * i + 1);
    std::string const large = std::to_string(2 * i + 2);
    text += "a " + small + " " + text_of(2 * mib) + "; a " + large + " " + text_of(9 * mib) +
            "; a 100 " + text_of(9 * mib) + "; f 100; f " + large + "; ";
    text += "a 10" + large + " " + text_of(18 * mib) + "; ";  // fills it, so the next needs its own
  }
  for (int i = 0; i < 4; ++i) text += "f 10" + std::to_string(2 * i + 2) + "; ";
  AllocationReplay const result = replayed(text + "a 9 " + text_of(20 * mib), "", 80 * mib);
  REQUIRE(result.oom_at == result.n);
  REQUIRE(result.oom_bytes == 20 * mib);
  REQUIRE(result.end.retries == 1);
  REQUIRE(result.end.ooms == 1);
  REQUIRE(result.end.reserved - result.end.allocated == 72 * mib);
}

TEST_CASE("a retry waits for events, which may be all that it needs", "[allocator]") {
  std::string const text = "d 1000; a 1 " + text_of(30 * mib) + "; r 1 1; f 1; a 2 ";
  AllocationReplay const result = replayed(text + text_of(40 * mib), "", 40 * mib);
  REQUIRE(!result.oom_at);
  REQUIRE(result.end.retries == 1);
  REQUIRE(result.end.active == 40 * mib);
}

TEST_CASE("an emptied cache keeps what is in use and counts no retry", "[allocator]") {
  AllocationReplay const result =
      replayed("a 1 " + text_of(30 * mib) + "; a 2 512; f 1; q; e; q; f 2; e; q");
  REQUIRE(result.checkpoints.at(0).reserved == 32 * mib);
  REQUIRE(result.checkpoints.at(1).reserved == 2 * mib);
  REQUIRE(result.checkpoints.at(2).reserved == 0);
  REQUIRE(result.end.retries == 0);
  REQUIRE(result.end.device_free == 2);
}

TEST_CASE("with max_split_size, one oversize block that is large enough goes first",
          "[allocator]") {
  std::string const text = "a 1 " + text_of(40 * mib) + "; a 2 " + text_of(60 * mib) +
                           "; f 1; f 2; a 3 " + text_of(30 * mib);
  // 30 MiB do not take a block of 40: its excess is not split off, yet below 20 MiB it is taken.
  AllocationReplay const reused = replayed(text, "max_split_size_mb:25", 100 * mib);
  REQUIRE(reused.end.device_alloc == 2);
  REQUIRE(reused.end.allocated == 40 * mib);
  // 120 MiB free in two blocks, of which neither serves 20: the smallest that is enough goes.
  AllocationReplay const one = replayed("a 1 " + text_of(50 * mib) + "; a 2 " + text_of(70 * mib) +
                                            "; f 1; f 2; a 3 " + text_of(20 * mib),
                                        "max_split_size_mb:20", 120 * mib);
  REQUIRE(one.end.device_free == 1);
  REQUIRE(one.end.reserved == 70 * mib + 20 * mib);
  REQUIRE(one.end.retries == 0);
}

TEST_CASE("with max_split_size, the largest oversize blocks go if none is large enough",
          "[allocator]") {
  std::string const text = "a 1 " + text_of(30 * mib) + "; a 2 " + text_of(40 * mib) + "; a 3 " +
                           text_of(50 * mib) + "; f 1; f 2; f 3; a 4 " + text_of(80 * mib);
  AllocationReplay const result = replayed(text, "max_split_size_mb:25", 120 * mib);
  REQUIRE(result.end.device_free == 2);  // 50 and 40
  REQUIRE(result.end.reserved == 30 * mib + 80 * mib);
  REQUIRE(result.end.retries == 0);
}

TEST_CASE("a memory fraction below 1 limits what is reserved", "[allocator]") {
  std::string const text = "; a 1 " + text_of(30 * mib) + "; a 2 " + text_of(30 * mib);
  REQUIRE(replayed("F 0.5" + text, "", 100 * mib).oom_at == 2);
  REQUIRE(!replayed("F 0.6" + text, "", 100 * mib).oom_at);
  REQUIRE(!replayed("F 0.5; F 1" + text, "", 100 * mib).oom_at);
  REQUIRE(replayed("e" + text, "per_process_memory_fraction:0.5", 100 * mib).oom_at == 2);
}

TEST_CASE("garbage collection frees blocks older than their mean, above its threshold only",
          "[allocator]") {
  // Three blocks become free one search apart; then a request that none of them serves.
  std::string const text = "F 0.99; a 1 " + text_of(12 * mib) + "; a 2 " + text_of(14 * mib) +
                           "; a 3 " + text_of(16 * mib) + "; f 1; a 4 " + text_of(30 * mib) +
                           "; f 2; a 5 " + text_of(32 * mib) + "; f 3; a 6 " + text_of(34 * mib);
  // 104 MiB are reserved before the last request, and at most 0.5 x 0.99 x 200 MiB = 99 wanted.
  // Ages are 3, 2 and 1; 12 and 14 MiB are at least 2 searches old.
  AllocationReplay const result = replayed(text, "garbage_collection_threshold:0.5", 200 * mib);
  REQUIRE(result.end.device_free == 2);
  REQUIRE(result.end.reserved == (16 + 30 + 32 + 34) * mib);
  REQUIRE(replayed(text, "garbage_collection_threshold:0.6", 200 * mib).end.device_free == 0);
  // One candidate is as old as the mean.
  std::string const one = "F 0.99; a 1 " + text_of(12 * mib) + "; f 1; a 2 " + text_of(14 * mib);
  REQUIRE(replayed(one, "garbage_collection_threshold:0.01", 200 * mib).end.device_free == 1);
  // Without a fraction nothing is collected.
  REQUIRE(replayed(one.substr(7), "garbage_collection_threshold:0.01", 200 * mib).end.device_free ==
          0);
}

TEST_CASE("other programs take device memory in pages of 2 MiB", "[allocator]") {
  REQUIRE(replayed("n 1", "", 100 * mib).end.device_used == 2 * mib);
  AllocationReplay const result =
      replayed("n " + text_of(71 * mib) + "; a 1 " + text_of(30 * mib), "", 100 * mib);
  REQUIRE(result.oom_at == 1);
  REQUIRE(result.end.device_used == 72 * mib);
}

}  // namespace stagecraft::cache_release_test
