#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "libsim/allocator/allocation_sequence.hpp"

namespace stagecraft {

/// The bytes of a file, inflated if it is gzipped.
/// \throws InputError  if it cannot be read, is cut short, or inflates to more than 2 GiB.
std::string read_inflated(std::filesystem::path const& path);

/// A sequence of allocations, and what a reader should know of it.
struct SequenceFile {
  AllocationSequence sequence;
  std::vector<std::string> notes;
};

/// Reads a sequence of allocations as text (sequence_text.hpp), or a memory snapshot of PyTorch
/// (snapshot_sequence.hpp), gzipped or not. `device`: that of the snapshot, by default the first
/// with events.
/// \throws InputError
SequenceFile read_sequence_file(std::filesystem::path const& path,
                                std::optional<std::int32_t> device = std::nullopt);

}  // namespace stagecraft
