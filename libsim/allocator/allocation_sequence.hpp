#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
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
    fraction,       ///< limits what is reserved to a part of the device: `fraction`
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
  SegmentPlaces places;  ///< where segments were on the device that it was recorded on
};

/// Makes a sequence from events that name allocations and streams by any numbers. Between two
/// calls, each live name has a slot of its own; slots of freed ones are given out again.
class SequenceBuilder {
 public:
  /// More streams than a program has.
  static constexpr std::int32_t most_streams = 1024;

  /// False, and nothing happens, if an allocation of that name is live.
  bool allocate(std::int64_t name, std::int64_t bytes, std::int32_t stream) {
    auto const [place, is_new] = live_.try_emplace(name, 0);
    if (!is_new) return false;
    place->second = take_slot();
    sequence_.events.push_back({.kind = AllocationEvent::Kind::allocate,
                                .slot = place->second,
                                .stream = stream,
                                .value = bytes});
    return true;
  }
  /// False, and nothing happens, if no allocation of that name is live.
  bool free(std::int64_t name) {
    auto const found = live_.find(name);
    if (found == live_.end()) return false;
    sequence_.events.push_back({.kind = AllocationEvent::Kind::free, .slot = found->second});
    unused_.push_back(found->second);
    live_.erase(found);
    return true;
  }
  /// Returns false if no block of this name is live.
  bool record_stream(std::int64_t name, std::int32_t stream) {
    auto const found = live_.find(name);
    if (found == live_.end()) return false;
    sequence_.events.push_back(
        {.kind = AllocationEvent::Kind::record_stream, .slot = found->second, .stream = stream});
    return true;
  }
  void add(AllocationEvent const& event) { sequence_.events.push_back(event); }

  /// The number of a stream; -1 if there are too many.
  std::int32_t stream(std::int64_t name) {
    if (last_stream_ >= 0 && name == last_name_) return last_stream_;
    auto const number = static_cast<std::int32_t>(streams_.size());
    auto const [place, is_new] = streams_.try_emplace(name, number);
    if (is_new && number == most_streams) {
      streams_.erase(place);
      return -1;
    }
    last_name_ = name;
    last_stream_ = place->second;
    return last_stream_;
  }

  /// The sequence; the builder is empty afterwards.
  AllocationSequence take() { return std::move(sequence_); }

 private:
  std::int32_t take_slot() {
    if (unused_.empty()) return sequence_.slots++;
    std::int32_t const slot = unused_.back();
    unused_.pop_back();
    return slot;
  }

  AllocationSequence sequence_;
  std::unordered_map<std::int64_t, std::int32_t> live_;  ///< slot by name
  std::vector<std::int32_t> unused_;
  std::unordered_map<std::int64_t, std::int32_t> streams_;
  std::int64_t last_name_ = 0;
  std::int32_t last_stream_ = -1;
};

}  // namespace stagecraft
