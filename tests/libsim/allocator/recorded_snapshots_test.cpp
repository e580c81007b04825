#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "libsim/allocator/pickle_reader.hpp"
#include "libsim/allocator/sequence_file.hpp"
#include "tests/libsim/allocator/replayed.hpp"

namespace stagecraft::recorded_snapshots_test {
namespace {

using nlohmann::json;

/// Trainings of a small Llama on an NVIDIA H200 (experiments/gpu/snapshots.py): all that PyTorch's
/// allocator was asked for and did, and what torch.cuda.memory_stats() said at the end.
std::filesystem::path const folder =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "experiments/gpu/results/allocator";

json cases() { return json::parse(std::ifstream{folder / "cases.json"}); }

AllocationSequence sequence_of(json const& recorded) {
  return read_sequence_file(folder / (recorded.at("name").get<std::string>() + ".pickle.gz"))
      .sequence;
}

std::unique_ptr<Allocator> allocator_of(json const& recorded) {
  AllocatorSettings settings = settings_of(recorded.at("settings").get<std::string>());
  if (!recorded.at("fraction").is_null()) settings.memory_fraction = recorded.at("fraction");
  return make_allocator(AllocatorKind::pytorch, settings, recorded.at("capacity"));
}

json end_of(AllocationReplay const& replay) {
  AllocatorCounters const& end = replay.end;
  return {{"allocated", end.allocated},
          {"peak_allocated", end.peak_allocated},
          {"reserved", end.reserved},
          {"peak_reserved", end.peak_reserved},
          {"requested", end.requested},
          {"active", end.active},
          {"inactive_split", end.inactive_split},
          {"segments", end.segments},
          {"retries", end.retries},
          {"ooms", end.ooms},
          {"device_alloc", end.device_alloc},
          {"device_free", end.device_free}};
}

/// Where the recorded allocations lay, in their order.
std::vector<std::int64_t> recorded_addresses(json const& recorded) {
  auto const path = folder / (recorded.at("name").get<std::string>() + ".pickle.gz");
  std::string const bytes = read_inflated(path);
  std::string const origin = path.string();
  PickleReader const pickle{bytes, origin};
  std::vector<std::int64_t> addresses;
  auto const traces = pickle.items(*pickle.find(pickle.root(), "device_traces"));
  for (PickleValue const entry : pickle.items(traces.front())) {
    if (pickle.text(*pickle.find(entry, "action")) != "alloc") continue;
    addresses.push_back(*pickle.integer(*pickle.find(entry, "addr")));
  }
  return addresses;
}

}  // namespace

TEST_CASE("every snapshot from a GPU ends as PyTorch's allocator ended there, in every statistic",
          "[allocator]") {
  std::set<std::string> settings;
  int died = 0;
  for (json const& recorded : cases()) {
    settings.insert(recorded.at("settings"));
    died += recorded.at("died").get<bool>() ? 1 : 0;
    AllocationSequence sequence = sequence_of(recorded);
    INFO(recorded.at("name"));
    AllocationReplay const followed = replay(sequence, *allocator_of(recorded));
    CHECK(end_of(followed) == recorded.at("end"));
    CHECK(followed.oom_at.has_value() == recorded.at("died").get<bool>());
    // CUDA puts most segments below the ones before: that alone decides as the recorded places do.
    REQUIRE(sequence.places.order == SegmentPlaces::Order::falling);
    sequence.places.recorded.clear();
    CHECK(end_of(replay(sequence, *allocator_of(recorded))) == recorded.at("end"));
  }
  REQUIRE(settings.size() == 5);
  REQUIRE(died == 2);
}

TEST_CASE("every allocation of the snapshots from a GPU is replayed at the address that it had",
          "[allocator]") {
  for (json const& recorded : cases()) {
    if (recorded.at("settings") == "expandable_segments:True") continue;  // begins elsewhere
    std::vector<std::int64_t> const addresses = recorded_addresses(recorded);
    AllocationSequence const sequence = sequence_of(recorded);
    auto const allocator = allocator_of(recorded);
    allocator->place_segments(sequence.places);
    std::vector<BlockId> blocks(static_cast<std::size_t>(sequence.slots), no_block);
    std::size_t n = 0;
    std::size_t different = 0;
    INFO(recorded.at("name"));
    for (AllocationEvent const& event : sequence.events) {
      if (event.kind == AllocationEvent::Kind::refused) {
        REQUIRE(allocator->allocate(event.value, event.stream) == no_block);
        continue;
      }
      BlockId& block = blocks[static_cast<std::size_t>(event.slot)];
      if (event.kind == AllocationEvent::Kind::allocate) {
        block = allocator->allocate(event.value, event.stream);
        REQUIRE(block != no_block);
        if (allocator->address_of(block) != addresses.at(n++)) ++different;
      } else {
        REQUIRE(event.kind == AllocationEvent::Kind::free);
        allocator->free(block);
      }
    }
    CHECK(n == addresses.size());
    CHECK(different == 0);
  }
}

}  // namespace stagecraft::recorded_snapshots_test
