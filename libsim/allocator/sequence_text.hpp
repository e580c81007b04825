#pragma once

#include <string>
#include <string_view>

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

}  // namespace stagecraft
