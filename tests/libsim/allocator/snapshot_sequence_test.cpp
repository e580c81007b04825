#include "libsim/allocator/snapshot_sequence.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "libsim/allocator/allocation_replay.hpp"
#include "libsim/allocator/make_allocator.hpp"
#include "libsim/export/pickle_writer.hpp"
#include "libsim/host/file_error.hpp"

namespace stagecraft::snapshot_sequence_test {
namespace {

using Catch::Contains;

struct Entry {
  std::string action;
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t stream = 0;
};

constexpr std::int64_t base = std::int64_t{0x7f} << 40;

void write_entry(PickleWriter& pickle, Entry const& entry) {
  pickle.begin_dictionary();
  pickle.text("action"), pickle.text(entry.action);
  pickle.text("addr"), pickle.number(base + entry.address);
  pickle.text("size"), pickle.number(entry.size);
  pickle.text("stream"), pickle.number(entry.stream);
  pickle.end_dictionary();
  pickle.end_element();
}

/// A snapshot of two devices of which the second has events; `live` are blocks of one segment.
std::string snapshot(std::vector<Entry> const& entries, std::vector<Entry> const& live = {}) {
  // Tests run side by side as processes of their own.
  auto const file = std::filesystem::temp_directory_path() /
                    ("stagecraft_snapshot_test_" + std::to_string(::getpid()) + ".pickle");
  OutputFile output{file};
  PickleWriter pickle{output};
  pickle.begin_dictionary();
  pickle.text("device_traces");
  pickle.begin_list();
  pickle.begin_list(), pickle.end_list(), pickle.end_element();
  pickle.begin_list();
  for (Entry const& entry : entries) write_entry(pickle, entry);
  pickle.end_list(), pickle.end_element();
  pickle.end_list();
  pickle.text("segments");
  pickle.begin_list();
  pickle.begin_dictionary();
  pickle.text("device"), pickle.number(1);
  pickle.text("address"), pickle.number(base);
  pickle.text("stream"), pickle.number(0);
  pickle.text("blocks");
  pickle.begin_list();
  for (Entry const& block : live) {
    pickle.begin_dictionary();
    pickle.text("address"), pickle.number(base + block.address);
    pickle.text("size"), pickle.number(block.size);
    pickle.text("state"), pickle.text(block.action);
    pickle.end_dictionary();
    pickle.end_element();
  }
  pickle.end_list();
  pickle.end_dictionary(), pickle.end_element();
  pickle.end_list();
  pickle.end_dictionary();
  pickle.finish();
  output.finish();
  std::ifstream stream{file, std::ios::binary};
  std::string bytes{std::istreambuf_iterator<char>{stream}, {}};
  std::filesystem::remove(file);
  return bytes;
}

AllocationReplay replayed(std::vector<Entry> const& entries,
                          std::vector<Entry> const& live = {},
                          std::int64_t capacity = unlimited_capacity) {
  SnapshotSequence const read = read_snapshot(snapshot(entries, live), "test", std::nullopt);
  REQUIRE(read.device == 1);
  return replay(read.sequence, *make_allocator(AllocatorKind::pytorch, {}, capacity));
}

}  // namespace

TEST_CASE("a snapshot's allocations and frees are replayed by address", "[allocator]") {
  AllocationReplay const result = replayed({{"segment_alloc", 0, 2 << 20},
                                            {"alloc", 0, 700},
                                            {"alloc", 1024, 512},
                                            {"free_requested", 0, 700},
                                            {"free_completed", 0, 700},
                                            {"alloc", 0, 600},
                                            {"snapshot", 0, 0}});
  REQUIRE(result.n == 3);
  REQUIRE(result.end.requested == 1112);
  REQUIRE(result.end.allocated == 1536);
  REQUIRE(result.end.segments == 1);
}

TEST_CASE("a block that is completed later is not reused before", "[allocator]") {
  std::vector<Entry> entries{{"alloc", 0, 512},
                             {"free_requested", 0, 512},
                             {"alloc", 512, 512},
                             {"alloc", 1024, 512},
                             {"free_completed", 0, 512}};
  REQUIRE(replayed(entries).end.active == 1536);
  entries.push_back({"alloc", 0, 512});
  REQUIRE(replayed(entries).end.active == 1536);  // the freed block, reused
  REQUIRE(replayed(entries).end.allocated == 1536);
}

TEST_CASE("what is older than the events comes first", "[allocator]") {
  std::vector<Entry> const entries{
      {"alloc", 4096, 512}, {"free_requested", 0, 1000}, {"free_completed", 0, 1000}};
  std::vector<Entry> const live{
      {"inactive", 0, 1024}, {"active_allocated", 1024, 2048}, {"active_allocated", 4096, 512}};
  AllocationReplay const result = replayed(entries, live);
  REQUIRE(result.n == 3);
  REQUIRE(result.end.peak_allocated == 1024 + 2048 + 512);
  REQUIRE(result.end.allocated == 2048 + 512);
}

TEST_CASE("a cache that was emptied is emptied, one that was released for a request is not",
          "[allocator]") {
  constexpr std::int64_t large = std::int64_t{30} << 20;
  std::vector<Entry> const before{{"segment_alloc", 0, large},
                                  {"alloc", 0, large},
                                  {"free_requested", 0, large},
                                  {"free_completed", 0, large},
                                  {"segment_free", 0, large}};
  REQUIRE(replayed(before).end.reserved == 0);
  std::vector<Entry> entries = before;
  entries.push_back({"alloc", 0, 512});
  REQUIRE(replayed(entries).end.reserved == 2 << 20);
  entries = before;
  entries.push_back({"segment_alloc", large, 512});
  entries.push_back({"alloc", large, 512});
  REQUIRE(replayed(entries).end.reserved == large + (2 << 20));
}

TEST_CASE("a request that failed when recorded may fail again, and what came after it is replayed",
          "[allocator]") {
  constexpr std::int64_t large = std::int64_t{30} << 20;
  constexpr std::int64_t refused = std::int64_t{20} << 20;
  std::vector<Entry> const entries{{"segment_alloc", 0, large},  {"alloc", 0, large},
                                   {"oom", 0, refused},          {"free_requested", 0, large},
                                   {"free_completed", 0, large}, {"alloc", 0, large}};
  AllocationReplay const failed = replayed(entries, {}, large);
  REQUIRE(failed.oom_at == 2);
  REQUIRE(failed.oom_bytes == refused);
  REQUIRE(failed.n == 3);
  REQUIRE(failed.end.ooms == 1);
  REQUIRE(failed.end.retries == 1);
  REQUIRE(failed.end.allocated == large);
  // On a larger device it gets its memory, which the program that went on without it does not keep.
  AllocationReplay const served = replayed(entries);
  REQUIRE(!served.oom_at);
  REQUIRE(served.end.peak_allocated == large + refused);
  REQUIRE(served.end.allocated == large);
  // A request that was served when recorded ends the replay if it fails.
  AllocationReplay const ended = replayed(entries, {}, large - 1);
  REQUIRE(ended.oom_at == 1);
  REQUIRE(ended.n == 1);
}

TEST_CASE("segments lie where they lay, unless what was there before them is not known",
          "[allocator]") {
  constexpr std::int64_t large = std::int64_t{30} << 20;
  using Order = SegmentPlaces::Order;
  auto const places_of = [](std::vector<Entry> const& entries) {
    return read_snapshot(snapshot(entries), "test", std::nullopt).sequence.places;
  };
  std::vector<Entry> entries{{"segment_alloc", 4 * large, large},
                             {"segment_free", 4 * large, large},
                             {"segment_alloc", large, 2 * large}};
  SegmentPlaces const falling = places_of(entries);
  REQUIRE(falling.order == Order::falling);
  REQUIRE(falling.recorded.size() == 2);
  REQUIRE(falling.recorded[0].address == base + 4 * large);
  REQUIRE(falling.recorded[0].given_back == 0);
  REQUIRE(falling.recorded[1].address == base + large);
  REQUIRE(falling.recorded[1].size == 2 * large);
  REQUIRE(falling.recorded[1].given_back == 1);
  entries.push_back({"free_requested", 9 * large, 512});  // older than all events
  REQUIRE(places_of(entries).order == Order::falling);
  REQUIRE(places_of(entries).recorded.empty());
  REQUIRE(places_of({{"segment_alloc", 0, large}, {"segment_alloc", large, large}}).order ==
          Order::rising);
  REQUIRE(places_of({{"segment_map", 0, large}}).order == Order::falling);
}

TEST_CASE("what is no snapshot, or contradicts itself, is refused", "[allocator]") {
  auto const refuse = [](std::string const& bytes, std::string const& message) {
    REQUIRE_THROWS_WITH(read_snapshot(bytes, "a.pickle", std::nullopt), Contains(message));
  };
  refuse("\x80\x02N.", "a.pickle: found no list device_traces");
  refuse(snapshot({}), "found no events; record them with");
  refuse(snapshot({{"alloc", 0, -1}}), "size -1 in device_traces[1][0]");
  refuse(snapshot({{"oom", 0, 0}}), "size 0 in device_traces[1][0]");
  refuse(snapshot({{"segment_alloc", -base - 1, 8}}), "addr -1 in device_traces[1][0]");
  refuse(snapshot({{"alloc", 0, 8}, {"alloc", 0, 8}}), "in use in device_traces[1][1]");
  refuse(snapshot({{"free_requested", 0, 8}, {"free_requested", 0, 8}}), "a second free");
  refuse(snapshot({{"alloc", 0, 8}}, {{"inactive", 0, -8}}), "a block of -8 bytes");
  REQUIRE_THROWS_WITH(read_snapshot(snapshot({{"alloc", 0, 8}}), "a.pickle", 0),
                      Contains("device 0 has no events; accepted: 1"));
}

}  // namespace stagecraft::snapshot_sequence_test
