#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "libsim/allocator/allocator.hpp"

namespace stagecraft {

/// The events that an allocator has recorded on streams, one queue per stream. A queue stops at its
/// first unfinished event, as streams do.
class StreamEvents {
 public:
  void advance(std::int64_t time) { now_ = saturated(now_, time); }
  void set_delay(std::int64_t time) { delay_ = time; }
  bool is_empty() const { return pending_ == 0; }

  void record(BlockId block, std::int32_t stream) {
    if (queues_.size() <= static_cast<std::size_t>(stream)) {
      queues_.resize(static_cast<std::size_t>(stream) + 1);
    }
    queues_[static_cast<std::size_t>(stream)].events.push_back({saturated(now_, delay_), block});
    ++pending_;
  }

  /// Calls `done(block)` for each event that its stream has passed.
  template <typename Done>
  void collect(Done&& done) {
    drain([&](Event const& event) { return event.time <= now_; }, std::forward<Done>(done));
  }
  /// Waits for all events, which takes no time of the sequence.
  template <typename Done>
  void synchronize(Done&& done) {
    drain([](Event const&) { return true; }, std::forward<Done>(done));
  }

 private:
  struct Event {
    std::int64_t time = 0;
    BlockId block = no_block;
  };
  struct Queue {
    std::vector<Event> events;
    std::size_t first = 0;
  };

  static std::int64_t saturated(std::int64_t a, std::int64_t b) {
    return a > std::numeric_limits<std::int64_t>::max() - b
               ? std::numeric_limits<std::int64_t>::max()
               : a + b;
  }

  template <typename IsOver, typename Done>
  void drain(IsOver&& is_over, Done&& done) {
    for (Queue& queue : queues_) {
      while (queue.first < queue.events.size() && is_over(queue.events[queue.first])) {
        --pending_;
        done(queue.events[queue.first++].block);
      }
      // What is done goes before it is most of the queue's memory.
      if (2 * queue.first >= queue.events.size()) {
        queue.events.erase(queue.events.begin(),
                           queue.events.begin() + static_cast<std::ptrdiff_t>(queue.first));
        queue.first = 0;
      }
    }
  }

  std::vector<Queue> queues_;  ///< by stream
  std::int64_t pending_ = 0;
  std::int64_t now_ = 0;
  std::int64_t delay_ = 0;
};

}  // namespace stagecraft
