#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libsim/allocator/snapshot_sequence.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// A number of the snapshot, and that of the trace.
using SnapshotPair = std::array<std::int64_t, 2>;

/// What is live at the peak in one part of memory, bytes.
struct MemoryPart {
  std::string name;  ///< a category, or "resident" or "transient"
  SnapshotPair bytes{};
};

/// Allocations of at least `least` and less than twice as many bytes.
struct SizeClass {
  std::int64_t least = 0;  ///< a power of two; 0: requests of nothing
  SnapshotPair allocations{};
  SnapshotPair blocks_at_peak{};
  SnapshotPair bytes_at_peak{};
};

/// The first allocation of the trace that the snapshot has otherwise.
struct AllocationDifference {
  std::int64_t allocation = 0;  ///< from 0, of the trace's after what is resident
  SnapshotPair bytes{};         ///< -1: there are no more
  std::string where;            ///< op and phase of the trace, its layer and microbatch
};

/// A memory snapshot of a PyTorch run beside one rank of a trace. Bytes are those asked for.
struct SnapshotComparison {
  std::int32_t device = 0;
  std::int32_t rank = 0;
  SnapshotPair peak{};         ///< most bytes live
  SnapshotPair allocations{};  ///< all but what is older than the first event, or resident
  std::int64_t reserved = 0;   ///< most that the snapshot's segments took
  std::optional<std::int64_t> trace_reserved;
  std::vector<MemoryPart> parts;
  std::vector<SizeClass> sizes;  ///< ascending
  /// Allocations of the snapshot before the one at which it follows the trace longest, and for how
  /// many allocations it then does.
  std::int64_t offset = 0;
  std::int64_t followed = 0;
  std::optional<AllocationDifference> first_difference;  ///< there

  /// Whether the trace's peak differs from the snapshot's by at most `percent` of that.
  bool peaks_agree_within(double percent) const;
};

/// Compares what was recorded with what a trace says. A trace knows what each category holds after
/// each op, not its buffers: an increase counts as one allocation (memory_blocks()).
///
/// Parts are the categories if the snapshot's frames name them, as those of `export --format
/// memory-snapshot` do. Otherwise there are two parts. "resident": older than the first event, or
/// never freed in a history that does not end by running out of memory; of the trace, parameters,
/// gradients and optimizer. "transient": the rest.
/// Pre: `trace` has op detail or chunk detail; `names` are its names.
SnapshotComparison compare_snapshot(SnapshotSequence const& snapshot,
                                    RankTrace const& trace,
                                    TraceNames const& names);

/// The comparison for people, and as a document of schema stagecraft.snapshot-comparison/1.
std::string snapshot_comparison_text(SnapshotComparison const& comparison);
nlohmann::ordered_json to_json(SnapshotComparison const& comparison);

}  // namespace stagecraft
