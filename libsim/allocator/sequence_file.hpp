#pragma once

#include <filesystem>
#include <string>

#include "libsim/allocator/allocation_sequence.hpp"

namespace stagecraft {

/// The bytes of a file, inflated if it is gzipped.
/// \throws InputError  if it cannot be read, is cut short, or inflates to more than 2 GiB.
std::string read_inflated(std::filesystem::path const& path);

/// Reads a sequence of allocations (sequence_text.hpp), gzipped or not.
/// \throws InputError
AllocationSequence read_sequence_file(std::filesystem::path const& path);

}  // namespace stagecraft
