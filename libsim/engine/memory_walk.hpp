#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "libsim/engine/memory_profile.hpp"
#include "libsim/engine/rank_memory.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A memory profile as a walk needs it: what is read at every step comes first, in one cache line.
struct MemoryMove {
  std::int64_t peak = 0;
  std::int64_t activation_peak = 0;
  std::int64_t net_sum = 0;
  std::int64_t net_activation_sum = 0;
  bool is_level = true;  ///< net is zero in every category, as in an exchange of equals
  CategoryBytes net;
  CategoryBytes at_peak;

  explicit MemoryMove(MemoryProfile const& profile)
      : peak{profile.peak},
        activation_peak{profile.activation_peak},
        net_sum{profile.net.sum()},
        net_activation_sum{profile.net.activation_sum()},
        is_level{profile.net == CategoryBytes{}},
        net{profile.net},
        at_peak{profile.at_peak} {}
};

/// Follows what a rank holds through its issue order.
class MemoryWalk {
 public:
  explicit MemoryWalk(CategoryBytes const& resident);

  /// Step `step` of the rank moves memory so.
  void move(MemoryMove const& move, std::int32_t step) {
    if (sum_ + move.peak > peak_) {
      peak_ = sum_ + move.peak;
      memory_.at_peak = now_ + move.at_peak;
      memory_.peak_step = step;
    }
    memory_.activation_peak =
        std::max(memory_.activation_peak, activation_sum_ + move.activation_peak);
    if (move.is_level) return;
    now_ += move.net;
    sum_ += move.net_sum;
    activation_sum_ += move.net_activation_sum;
  }
  void begin_chunk() {
    memory_.in_flight_chunks = std::max(memory_.in_flight_chunks, ++in_flight_);
  }
  void end_chunk() { --in_flight_; }

  /// What happened since the walk was as `then` happens `times` more times, of which nothing is
  /// looked at. (What repeats changes memory steadily: its peak is in its first or in its last
  /// time.)
  void repeat_since(MemoryWalk const& then, int times);

  CategoryBytes const& now() const { return now_; }
  RankMemory const& result() const { return memory_; }

 private:
  RankMemory memory_;
  CategoryBytes now_;
  std::int64_t sum_;
  std::int64_t activation_sum_;
  std::int64_t peak_ = 0;
  std::int32_t in_flight_ = 0;
};

/// The memory moves of posts and waits, made once a kind: messages differ only in payload and end,
/// so that a few moves serve thousands of exchanges.
class MessageMoves {
 public:
  enum class Kind : std::uint8_t {
    post,
    wait,
    exchange /**< a post, then the wait for the same */
  };
  /// Most transfers of one step of a schedule.
  static constexpr int most = 4;

  /// Payloads and ends of a step's transfers, in order.
  class Code {
   public:
    void add(Transfer::Payload payload, Transfer::End end) {
      value_ = 4 * value_ + 2 * static_cast<std::size_t>(payload) + static_cast<std::size_t>(end);
      ++count_;
    }
    std::size_t value() const { return value_; }
    int count() const { return count_; }

   private:
    std::size_t value_ = 1;
    int count_ = 0;
  };

  explicit MessageMoves(TrainingPlan const& plan) : plan_{plan} { places_.fill(none); }

  /// Valid for as long as this object. Pre: code.count() <= most.
  MemoryMove const& of(Kind kind, Code const& code) {
    auto& place = places_[code_limit * static_cast<std::size_t>(kind) + code.value()];
    if (place == none) place = make(kind, code);
    return moves_[static_cast<std::size_t>(place)];
  }

 private:
  std::int16_t make(Kind kind, Code const& code);

  static constexpr std::int16_t none = -1;
  static constexpr std::size_t code_limit = std::size_t{2} << 2 * most;
  TrainingPlan const& plan_;
  std::deque<MemoryMove> moves_;  ///< never moves what it holds
  std::array<std::int16_t, 3 * code_limit> places_;
};

}  // namespace stagecraft
