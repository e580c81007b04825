#include "libsim/export/snapshot_comparison.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace stagecraft::snapshot_comparison_test {
namespace {

/// A trace of one rank: 3000 bytes of parameters, then 600, 5000, and 600 bytes of activations, of
/// which the 5000 go before the last come.
RankTrace small_trace() {
  RankTrace trace;
  trace.ops.resize(3);
  trace.ops.start = {10, 20, 30};
  trace.ops.duration = {10, 10, 10};
  trace.ops.op = {0, 1, 1};
  trace.ops.layer = {0, 1, 2};
  trace.memory.resize(6);
  trace.memory.time = {0, 10, 20, 25, 30, 40};
  trace.memory.of(Category::parameters).assign(6, 3000);
  trace.memory.of(Category::activations) = {0, 600, 5600, 600, 1200, 0};
  return trace;
}
TraceNames names() { return {.op = {"norm", "gemm"}, .phase = {"forward"}, .stream = {"compute"}}; }

/// A recorded run of the given requests: `before` of them are older than the first event. The
/// request at `freed` is freed before the next one, and if `ends` every younger one at the end.
SnapshotSequence recorded(std::vector<std::int64_t> const& requests,
                          std::int64_t before,
                          std::size_t freed,
                          bool ends = false) {
  SnapshotSequence snapshot;
  snapshot.live_before = before;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto const slot = static_cast<std::int32_t>(i);
    snapshot.sequence.events.push_back({.slot = slot, .value = requests[i]});
    snapshot.name_of_allocation.push_back(-1);
    if (i == freed) {
      snapshot.sequence.events.push_back({.kind = AllocationEvent::Kind::free, .slot = slot});
    }
  }
  for (auto i = static_cast<std::size_t>(before); ends && i < requests.size(); ++i) {
    if (i == freed) continue;
    auto const slot = static_cast<std::int32_t>(i);
    snapshot.sequence.events.push_back({.kind = AllocationEvent::Kind::free, .slot = slot});
  }
  snapshot.sequence.slots = static_cast<std::int32_t>(requests.size());
  return snapshot;
}

TEST_CASE("a snapshot of the trace's own requests follows it to its end", "[export]") {
  SnapshotComparison const same =
      compare_snapshot(recorded({3000, 600, 5000, 600}, 1, 2, true), small_trace(), names());
  REQUIRE(same.peak == SnapshotPair{8600, 8600});
  REQUIRE(same.allocations == SnapshotPair{3, 3});
  REQUIRE(same.followed == 3);
  REQUIRE(!same.first_difference);
  REQUIRE(same.parts.size() == 2);
  REQUIRE(same.parts[0].name == "resident");
  REQUIRE(same.parts[0].bytes == SnapshotPair{3000, 3000});
  REQUIRE(same.parts[1].bytes == SnapshotPair{5600, 5600});
  REQUIRE(same.peaks_agree_within(0));
}

TEST_CASE("a block that the recorded history never frees is resident", "[export]") {
  // Moments that the first recorded step makes, and what only the iteration needs. PyTorch draws
  // the former to the end of the history (torch/utils/viz/MemoryViz.js). The trace's 600 bytes of
  // the last op go, as the iteration ends.
  SnapshotComparison const parts =
      compare_snapshot(recorded({3000, 600, 5000, 600}, 1, 2), small_trace(), names());
  REQUIRE(parts.parts.size() == 2);
  REQUIRE(parts.parts[0].name == "resident");
  REQUIRE(parts.parts[0].bytes == SnapshotPair{3600, 3000});
  REQUIRE(parts.parts[1].name == "transient");
  REQUIRE(parts.parts[1].bytes == SnapshotPair{5000, 5600});
  // It is still one of the requests that are counted and followed.
  REQUIRE(parts.allocations == SnapshotPair{3, 3});
}

TEST_CASE("where a snapshot differs first is named by the op of the trace", "[export]") {
  // It has one more request at first, asks for 6000 in place of 5000, and frees nothing.
  SnapshotComparison const other =
      compare_snapshot(recorded({3000, 77, 600, 6000, 600}, 1, 99), small_trace(), names());
  REQUIRE(other.peak == SnapshotPair{10277, 8600});
  REQUIRE(other.offset == 1);
  REQUIRE(other.followed == 1);
  REQUIRE(other.first_difference->allocation == 1);
  REQUIRE(other.first_difference->bytes == SnapshotPair{6000, 5000});
  REQUIRE(other.first_difference->where == "gemm (forward), layer 1, microbatch 0");
  REQUIRE(!other.peaks_agree_within(16));
  REQUIRE(other.peaks_agree_within(17));  // 1677 of 10277 are 16.3 %
}

TEST_CASE("requests are counted by powers of two", "[export]") {
  SnapshotComparison const other =
      compare_snapshot(recorded({3000, 600, 6000, 1023}, 1, 99), small_trace(), names());
  // 600 and 1023 are in one class, 5000 and 6000 in another; the resident 3000 are no allocation.
  REQUIRE(other.sizes.size() == 3);
  REQUIRE(other.sizes[0].least == 512);
  REQUIRE(other.sizes[0].allocations == SnapshotPair{2, 2});
  REQUIRE(other.sizes[0].bytes_at_peak == SnapshotPair{1623, 600});
  REQUIRE(other.sizes[1].least == 2048);
  REQUIRE(other.sizes[1].allocations == SnapshotPair{0, 0});
  REQUIRE(other.sizes[1].blocks_at_peak == SnapshotPair{1, 1});
  REQUIRE(other.sizes[2].least == 4096);
  REQUIRE(other.sizes[2].bytes_at_peak == SnapshotPair{6000, 5000});
}

TEST_CASE("frames of exported snapshots say the category", "[export]") {
  SnapshotSequence snapshot = recorded({3000, 600, 5000, 600}, 1, 2);
  snapshot.names = {"stage 0/parameters", "stage 0/layer 1/activations"};
  snapshot.name_of_allocation = {0, 1, 1, 1};
  SnapshotComparison const named = compare_snapshot(snapshot, small_trace(), names());
  REQUIRE(named.parts.size() == 2);
  REQUIRE(named.parts[0].name == "parameters");
  REQUIRE(named.parts[1].name == "activations");
  REQUIRE(named.parts[1].bytes == SnapshotPair{5600, 5600});
}

}  // namespace
}  // namespace stagecraft::snapshot_comparison_test
