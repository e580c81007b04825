#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "libsim/model/memory_profile.hpp"
#include "libsim/plan/distinct_tasks.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A memory profile as a replay of thousands of entries needs it, with its sums. What is read at
/// every entry comes first, in one cache line.
struct MemoryMove {
  std::int64_t net_sum = 0;
  std::int64_t net_activation_sum = 0;
  bool is_level = true;  ///< net is zero in every category, as in an exchange of equals
  MemoryProfile profile;

  explicit MemoryMove(MemoryProfile const& of)
      : net_sum{of.net.sum()},
        net_activation_sum{of.net.activation_sum()},
        is_level{of.net == CategoryBytes{}},
        profile{of} {}
};

/// What the tasks of a plan do to memory: the sums of their buffer events (buffer_events.hpp), made
/// from those of their blocks, once per distinct task.
class TaskMemories {
 public:
  /// `plan` must outlive the object.
  explicit TaskMemories(TrainingPlan const& plan);

  /// Valid for as long as this object.
  MemoryMove const& of(Task const& task);

 private:
  MemoryProfile profile(Task const& task) const;

  TrainingPlan const& plan_;
  std::vector<std::array<MemoryProfile, 2>> blocks_;  ///< by block and pass
  DistinctTasks<MemoryMove> tasks_;
  MemoryMove none_{MemoryProfile{}};
};

/// What posts of messages, and waits for them, do to memory: the sums of their buffer events, made
/// once per kind. Messages differ only in payload and end, so that a few sums serve thousands of
/// exchanges.
class MessageMoves {
 public:
  enum class Kind : std::uint8_t {
    post,
    wait,
    exchange /**< a post, then the wait for the same */
  };
  /// Most transfers of one entry of a schedule.
  static constexpr int most = 4;

  /// Payloads and ends of an entry's transfers, in order.
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
  /// Likewise. Pre: at most `most` transfers.
  MemoryMove const& of(Kind kind, std::span<Transfer const> transfers) {
    Code code;
    for (Transfer const& transfer : transfers) code.add(transfer.payload, transfer.end);
    return of(kind, code);
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
