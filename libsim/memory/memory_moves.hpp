#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <stdexcept>
#include <vector>

#include "libsim/plan/distinct_tasks.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/program/memory_profile.hpp"

namespace stagecraft {

/// How an entry of an issue order changes memory: the sum of its buffer events, in bytes. The
/// members that a replay reads at every entry come first, in one cache line.
struct MemoryMove {
  std::int64_t net_sum = 0;
  std::int64_t net_activation_sum = 0;
  std::int32_t in_flight = 0;  ///< chunk passes that begin, less those that end
  bool is_level = true;        ///< whether nothing changes from before the entry to after it
  MemoryProfile profile;

  explicit MemoryMove(MemoryProfile const& of, std::int32_t begun = 0)
      : net_sum{of.net.sum()},
        net_activation_sum{of.net.activation_sum()},
        in_flight{begun},
        is_level{of.net == CategoryBytes{} && begun == 0},
        profile{of} {}
};

/// The sums of the events that BufferEvents gives one by one. Each is computed once: per distinct
/// task, from the sums of its blocks' passes, and per kind of exchange. Messages differ only in
/// payload and end, so that a few sums serve thousands of exchanges. References are valid as long
/// as the object.
class MemoryMoves {
 public:
  /// For ranks that run these programs. Both must outlive the object.
  MemoryMoves(TrainingPlan const& plan, Programs const& programs);

  MemoryMove const& of(Task const& task);
  /// The changes of a post of these transfers, or of a wait for them. Pre: `kind` is post or wait.
  /// \throws std::logic_error  if there are more than four transfers.
  MemoryMove const& of(IssueEntry::Kind kind, std::span<Transfer const> transfers);
  /// The changes of each of these entries, whose program has `tasks` and `transfers`. The element
  /// of an entry of kind repeat must not be read.
  std::vector<MemoryMove const*> of(std::span<IssueEntry const> entries,
                                    std::span<Task const> tasks,
                                    std::span<Transfer const> transfers);

 private:
  MemoryMove sum_of(Task const& task) const;
  std::int16_t append(IssueEntry::Kind kind, std::span<Transfer const> transfers);

  static constexpr std::int16_t none = -1;
  static constexpr std::size_t most_transfers = 4;  ///< transfers of an entry
  static constexpr std::size_t code_limit = std::size_t{4} << 2 * most_transfers;
  TrainingPlan const& plan_;
  Programs const& programs_;
  std::vector<std::array<MemoryProfile, pass_count>> blocks_;  ///< by block and pass
  DistinctTasks<MemoryMove> tasks_;
  std::deque<MemoryMove> exchanges_;             ///< a deque, so that references stay valid
  std::array<std::int16_t, code_limit> places_;  ///< index into `exchanges_`, by code
  MemoryMove nothing_{MemoryProfile{}};
};

}  // namespace stagecraft
