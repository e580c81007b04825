#pragma once

#include <cstdint>
#include <vector>

#include "libsim/allocator/segment_places.hpp"

namespace stagecraft {

/// What a program asks of its allocator, or what happens beside it.
struct AllocationEvent {
  enum class Kind : std::uint8_t {
    allocate,       ///< `value` bytes for `stream`, kept in `slot`
    refused,        ///< `value` bytes for `stream`, which the recorded program did not get
    free,           ///< what `slot` holds
    record_stream,  ///< `stream` also uses what `slot` holds
    advance,        ///< time passes: `value`
    event_delay,    ///< events take `value` from now on
    foreign,        ///< others take `value` bytes of the device
    fraction,       ///< of the device, that may be reserved: `fraction`
    empty_cache,
    checkpoint,  ///< the counters are noted
  };
  Kind kind = Kind::allocate;
  std::int32_t slot = -1;
  std::int32_t stream = 0;
  std::int64_t value = 0;
  double fraction = 0;
};

/// A recorded or predicted sequence of allocations, free of names: a slot holds one live allocation
/// at a time, and streams are numbered from 0. Everything is valid: what is freed is live.
struct AllocationSequence {
  std::vector<AllocationEvent> events;
  std::int32_t slots = 0;
  SegmentPlaces places;  ///< of the device that it was recorded on
};

}  // namespace stagecraft
