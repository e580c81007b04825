#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "libsim/allocator/allocation_replay.hpp"
#include "libsim/allocator/make_allocator.hpp"
#include "libsim/allocator/snapshot_sequence.hpp"
#include "libsim/export/snapshot_comparison.hpp"
#include "libsim/host/file_error.hpp"

namespace {

using namespace stagecraft;

constexpr std::int64_t held = 1000 + 512 + 4096;

TraceNames names() { return {.op = {"gemm"}, .phase = {"forward"}, .stream = {"compute"}}; }

/// Parameters, two allocations and their release.
RankTrace trace() {
  RankTrace trace;
  trace.ops.resize(2);
  trace.ops.start = {0, 10};
  trace.ops.duration = {10, 10};
  trace.memory.resize(4);
  trace.memory.time = {0, 5, 15, 20};
  trace.memory.of(Category::parameters) = {1000, 1000, 1000, 1000};
  trace.memory.of(Category::activations) = {0, 512, 512 + 4096, 0};
  return trace;
}

/// Any bytes are refused, or are a sequence that can be replayed and compared with a trace.
void read(std::string_view input) {
  try {
    SnapshotSequence const read = read_snapshot(input, "fuzz.pickle", std::nullopt);
    auto const allocator = make_allocator(AllocatorKind::pytorch, {}, std::int64_t{1} << 40);
    AllocationReplay const result = replay(read.sequence, *allocator);
    if (result.end.requested > result.end.active) std::abort();
    SnapshotComparison const comparison = compare_snapshot(read, trace(), names());
    if (comparison.peak[1] != held) std::abort();
    std::int64_t sum = 0;
    for (MemoryPart const& part : comparison.parts) sum += part.bytes[0];
    if (sum != comparison.peak[0]) std::abort();
    snapshot_comparison_text(comparison);
  } catch (InputError const&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  read(std::string_view{reinterpret_cast<char const*>(data), size});
  return 0;
}
