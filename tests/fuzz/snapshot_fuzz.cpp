#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "libsim/allocator/allocation_replay.hpp"
#include "libsim/allocator/snapshot_sequence.hpp"
#include "libsim/host/file_error.hpp"

namespace {

using namespace stagecraft;

/// Any bytes are refused, or are a sequence that can be replayed.
void read(std::string_view input) {
  try {
    SnapshotSequence const read = read_snapshot(input, "fuzz.pickle", std::nullopt);
    auto const allocator = make_allocator(AllocatorKind::pytorch, {}, std::int64_t{1} << 40);
    AllocationReplay const result = replay(read.sequence, *allocator);
    if (result.end.requested > result.end.active) std::abort();
  } catch (InputError const&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  read(std::string_view{reinterpret_cast<char const*>(data), size});
  return 0;
}
