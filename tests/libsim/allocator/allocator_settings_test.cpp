#include <catch2/catch.hpp>

#include "tests/libsim/allocator/replayed.hpp"

namespace stagecraft::allocator_settings_test {
namespace {

using Catch::Contains;

std::string problem_of(std::string_view text) {
  Diagnostics diagnostics;
  read_allocator_settings(text, {}, "memory.allocator_settings", diagnostics);
  REQUIRE(diagnostics.problems().size() == 1);
  return to_string(diagnostics.problems().front());
}

}  // namespace

TEST_CASE("settings are read as PyTorch writes them, with spaces anywhere", "[allocator]") {
  AllocatorSettings const read = settings_of(
      " max_split_size_mb: 128, garbage_collection_threshold:0.6 ,expandable_segments:True,"
      "per_process_memory_fraction:0.9,backend:native,max_non_split_rounding_mb:64,");
  REQUIRE(read.max_split_size == 128 * mib);
  REQUIRE(read.garbage_collection_threshold == 0.6);
  REQUIRE(read.expandable_segments);
  REQUIRE(read.memory_fraction == 0.9);
  REQUIRE(read.max_non_split_rounding == 64 * mib);
  REQUIRE(settings_of("") == AllocatorSettings{});
  REQUIRE(settings_of("per_process_memory_fraction:1.0") == AllocatorSettings{});
  REQUIRE(settings_of("pinned_use_background_threads:True,release_lock_on_cudamalloc:True") ==
          AllocatorSettings{});
  REQUIRE(settings_of("expandable_segments_reserve:40G").reservation ==
          SegmentReservation{false, 40.0 * (1 << 30)});
}

TEST_CASE("the large segment size is also the least split size, wherever it stands",
          "[allocator]") {
  AllocatorSettings const read = settings_of("max_split_size_mb:64,large_segment_size_mb:64");
  REQUIRE(read.large_segment_size == 64 * mib);
  REQUIRE(read.max_non_split_rounding == 64 * mib);
  REQUIRE_THAT(problem_of("max_split_size_mb:63,large_segment_size_mb:64"),
               Contains("max_split_size_mb: found '63'; accepted: a whole number of MiB from 64"));
  REQUIRE(settings_of("max_split_size_mb:20").max_split_size == 20 * mib);
}

TEST_CASE("a list of divisions sets intervals, those below the first and those behind the last",
          "[allocator]") {
  AllocatorSettings const read = settings_of("roundup_power2_divisions:[4:8,16:2,>:1]");
  REQUIRE(read.power2_divisions ==
          std::array<std::int64_t, 16>{8, 8, 8, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  REQUIRE(settings_of("roundup_power2_divisions:4").power2_divisions.front() == 4);
  REQUIRE(settings_of("roundup_power2_divisions:[1048576:4]").power2_divisions.back() == 4);
}

TEST_CASE("a wrong setting is refused with what was found and what is accepted", "[allocator]") {
  auto const [text, message] = GENERATE(table<std::string, std::string>({
      {"max_split_size_mb:19", "found '19'; accepted: a whole number of MiB from 20"},
      {"max_split_size_mb:2O", "found '2O'"},
      {"max_split_size_mb", "missing; accepted: a colon and a value"},
      {"max_split_size_mb:", "missing; accepted: a value"},
      {"max_split_size_mb:[20]", "found '['; accepted: one value"},
      {"large_segment_size_mb:10", "a whole number of MiB from 11"},
      {"garbage_collection_threshold:1", "found '1'; accepted: a number above 0 and below 1"},
      {"garbage_collection_threshold:nan", "found 'nan'"},
      {"expandable_segments:true", "found 'true'; accepted: True, False"},
      {"per_process_memory_fraction:1.5", "a number from 0 to 1"},
      {"expandable_segments_reserve:-1", "a fraction of the device's memory"},
      {"backend:cudaMalloc", "native, cudaMallocAsync"},
      {"roundup_power2_divisions:3", "found '3'; accepted: a power of two"},
      {"roundup_power2_divisions:[256:3]", "found '3'; accepted: 0, or a power of two"},
      {"roundup_power2_divisions:[3:1]", "found '3'; accepted: an interval"},
      {"roundup_power2_divisions:[256:1", "missing; accepted: a closing bracket"},
      {"roundup_power2_divisions:[256]", "a list of intervals"},
      {"max_split_sise_mb:20", "did you mean 'max_split_size_mb'?"},
      {"max_split_size_mb:20 expandable_segments:True", "a comma, and the next setting"},
      {":20", "found ':'; accepted: a key"},
  }));
  REQUIRE_THAT(problem_of(text), Contains(message) && Contains("memory.allocator_settings"));
}

}  // namespace stagecraft::allocator_settings_test
