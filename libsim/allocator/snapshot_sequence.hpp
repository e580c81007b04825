#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/allocator/allocation_sequence.hpp"

namespace stagecraft {

/// A memory snapshot of PyTorch as a sequence of allocations.
struct SnapshotSequence {
  AllocationSequence sequence;
  std::int32_t device = 0;             ///< the device whose sequence this is
  std::vector<std::int32_t> recorded;  ///< devices with any events
  std::int64_t live_before = 0;        ///< allocations that are older than the first event
  std::int64_t peak_reserved = 0;      ///< most bytes that the recorded segments took
  /// For each allocation of the sequence, the name of its innermost frame as an index into `names`;
  /// -1 if it has none.
  std::vector<std::int32_t> name_of_allocation;
  std::vector<std::string> names;
};

/// Reads what torch.cuda.memory._dump_snapshot() has written, of one device: by default the first
/// with any events.
///
/// Allocations and frees are replayed in the recorded order, and so are requests that failed.
/// Segments lie where they lay, if all of them are known; else, and in a replay that takes others,
/// each lies below or above those before it, as most of the recorded ones do; without any, below. A
/// block that was freed while other streams used it becomes reusable when the snapshot says so. Of
/// allocations that are older than the first event only those that still live then are known; they
/// come first, by address, so that the segments that they share may differ from the recorded ones.
/// A cache that was emptied is emptied.
/// Source: PyTorch, torch/csrc/cuda/memory_snapshot.cpp and torch/cuda/memory.py.
/// \throws InputError  with the place, if it is not such a snapshot, or holds anything but data
SnapshotSequence read_snapshot(std::string_view bytes,
                               std::string const& origin,
                               std::optional<std::int32_t> device);

}  // namespace stagecraft
