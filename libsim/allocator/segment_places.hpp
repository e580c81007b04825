#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stagecraft {

/// A segment that a recorded program took from its device.
struct RecordedSegment {
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t given_back = 0;  ///< segments that had been given back before
};

/// The addresses at which the driver places an allocator's segments. Of two free blocks of equal
/// size PyTorch takes the one at the lower address, so addresses decide which segments stay whole.
struct SegmentPlaces {
  enum class Order : std::uint8_t {
    rising,   ///< each above all before it
    falling,  ///< each below all before it, as CUDA on Linux mostly does
  };
  Order order = Order::rising;
  /// In the order in which they were taken. They are followed as long as the allocator takes the
  /// same sizes at the same times; what it takes then lies above or below all of them.
  std::vector<RecordedSegment> recorded;
};

/// Hands out the addresses of segments: recorded ones while requests are those of the recording.
/// Later ones fall from `lowest_` or rise from `next_`, so that no two overlap.
class SegmentAddresses {
 public:
  /// Pre: no address has been handed out.
  void follow(SegmentPlaces places) {
    places_ = std::move(places);
    lowest_ = default_lowest;
    for (RecordedSegment const& segment : places_.recorded) {
      lowest_ = std::min(lowest_, segment.address);
      next_ = std::max(next_, segment.address + segment.size);
    }
  }

  /// The address of a segment that is taken from the device after `given_back` others went back.
  std::int64_t take(std::int64_t size, std::int64_t given_back) {
    if (follows_) {
      follows_ = at_ < places_.recorded.size() && places_.recorded[at_].size == size &&
                 places_.recorded[at_].given_back == given_back;
      if (follows_) return places_.recorded[at_++].address;
    }
    if (places_.order == SegmentPlaces::Order::falling) return lowest_ -= size;
    next_ += size;
    return next_ - size;
  }

  /// The address, a multiple of `alignment`, of a range into which memory is mapped later. Such
  /// ranges rise always: no two of them share a pool, so that their order decides nothing.
  std::int64_t reserve(std::int64_t size, std::int64_t alignment) {
    std::int64_t const address = (next_ + alignment - 1) / alignment * alignment;
    next_ = address + size;
    return address;
  }

  /// Equal states hand out equal addresses from here on.
  void append_to(std::vector<std::int64_t>& state) const {
    state.insert(state.end(), {next_, lowest_, static_cast<std::int64_t>(at_)});
  }

 private:
  /// Above what any run takes, and far enough below the largest number.
  static constexpr std::int64_t default_lowest = std::int64_t{1} << 60;

  SegmentPlaces places_;
  std::size_t at_ = 0;                    ///< the recorded segment that comes next
  bool follows_ = true;                   ///< so far as recorded
  std::int64_t next_ = 0;                 ///< above all that is known
  std::int64_t lowest_ = default_lowest;  ///< the lowest address that is known
};

}  // namespace stagecraft
