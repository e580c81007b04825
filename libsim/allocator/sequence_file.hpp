#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/allocator/allocation_sequence.hpp"

namespace stagecraft {

/// Reads a sequence of allocations as text, an event per line; fields are separated by spaces and
/// are whole numbers from 0, unless said otherwise.
///
///     a ID SIZE [STREAM]   allocate SIZE bytes for a stream, 0 by default
///     f ID                 free
///     r ID STREAM          another stream uses the block too (record_stream)
///     t DT                 time passes
///     d DELAY              what a stream takes from now on to reach an event
///     n BYTES              others take memory of the device
///     F FRACTION           of the device that may be reserved, from 0 to 1
///     e                    the cache is emptied
///     q                    checkpoint
///
/// An ID may be used again once it is freed. Empty lines are skipped.
/// \throws InputError  `origin:line: what was found; what is accepted`.
AllocationSequence read_sequence_text(std::string_view text, std::string const& origin);

/// The bytes of a file, inflated if it is gzipped.
/// \throws InputError  if it cannot be read, is cut short, or inflates to more than 2 GiB.
std::string read_inflated(std::filesystem::path const& path);

/// A sequence of allocations, and what a reader should know of it.
struct SequenceFile {
  AllocationSequence sequence;
  std::vector<std::string> notes;
};

/// Reads a sequence of allocations as text (read_sequence_text()), or a memory snapshot of PyTorch
/// (snapshot_sequence.hpp), gzipped or not. `device`: that of the snapshot, by default the first
/// with events.
/// \throws InputError
SequenceFile read_sequence_file(std::filesystem::path const& path,
                                std::optional<std::int32_t> device = std::nullopt);

}  // namespace stagecraft
