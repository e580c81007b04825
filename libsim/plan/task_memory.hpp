#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <stdexcept>
#include <vector>

#include "libsim/model/memory_profile.hpp"
#include "libsim/plan/distinct_tasks.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// A memory profile with its sums, in bytes. The members that a replay reads at every entry come
/// first, in one cache line.
struct MemoryMove {
  std::int64_t net_sum = 0;
  std::int64_t net_activation_sum = 0;
  bool is_level = true;  ///< net is zero in every category, as in an exchange of equal messages
  MemoryProfile profile;

  explicit MemoryMove(MemoryProfile const& of)
      : net_sum{of.net.sum()},
        net_activation_sum{of.net.activation_sum()},
        is_level{of.net == CategoryBytes{}},
        profile{of} {}
};

/// What the tasks of a plan do to memory: the sums of their buffer events (buffer_events.hpp),
/// computed from those of their blocks, once per distinct task.
class TaskMemories {
 public:
  /// `plan` must outlive the object.
  explicit TaskMemories(TrainingPlan const& plan);

  /// The reference is valid as long as this object.
  MemoryMove const& of(Task const& task);

 private:
  MemoryProfile profile(Task const& task) const;

  TrainingPlan const& plan_;
  std::vector<std::array<MemoryProfile, pass_count>> blocks_;  ///< by block and pass
  DistinctTasks<MemoryMove> tasks_;
  MemoryMove none_{MemoryProfile{}};
};

/// What posts of messages, and waits for them, do to memory: the sums of their buffer events.
/// Messages differ only in payload and end, so a few sums serve thousands of exchanges.
class MessageMemories {
 public:
  /// The largest number of transfers in one entry of a schedule.
  static constexpr std::size_t most = 4;

  explicit MessageMemories(TrainingPlan const& plan) : plan_{plan} { places_.fill(none); }

  /// What a post of these transfers does, or a wait for them. The reference is valid as long as
  /// this object. Pre: `kind` is post or wait.
  /// \throws std::logic_error  if there are more than `most` transfers.
  MemoryMove const& of(IssueEntry::Kind kind, std::span<Transfer const> transfers) {
    if (transfers.size() > most) throw std::logic_error{"an entry has too many transfers"};
    std::size_t code = kind == IssueEntry::Kind::post ? 2 : 3;  // then payloads and ends, in order
    for (Transfer const& transfer : transfers) {
      code = 4 * code + 2 * static_cast<std::size_t>(transfer.payload) +
             static_cast<std::size_t>(transfer.end);
    }
    if (places_[code] == none) places_[code] = make(kind, transfers);
    return moves_[static_cast<std::size_t>(places_[code])];
  }

 private:
  std::int16_t make(IssueEntry::Kind kind, std::span<Transfer const> transfers);

  static constexpr std::int16_t none = -1;
  static constexpr std::size_t code_limit = std::size_t{4} << 2 * most;
  TrainingPlan const& plan_;
  std::deque<MemoryMove> moves_;                 ///< a deque, so that references stay valid
  std::array<std::int16_t, code_limit> places_;  ///< by code
};

}  // namespace stagecraft
