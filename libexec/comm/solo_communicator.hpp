#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "libexec/backends/random_numbers.hpp"
#include "libexec/comm/communicator.hpp"
#include "libexec/comm/thread_group.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// One rank of a plan without the others: its shard computes for real, and communication takes its
/// price.
///
/// A collective does to this rank's tensors what it can do alone: all_reduce leaves the rank's own
/// summand, all_gather puts the rank's own piece into every place (where the whole is already
/// there, around the piece, the others' stay as they are), reduce_scatter takes the rank's piece of
/// its own summand. A received message is random numbers. So everything is finite and of the right
/// shape, and no loss or gradient is that of the model.
///
/// Peers are always ready: a message starts when this rank posts it, a collective when this rank
/// and the group's stream are.
class SoloCommunicator final : public Communicator {
 public:
  /// The backend and the clock, whose time is virtual, must outlive it.
  SoloCommunicator(TrainingPlan const& plan, int rank, Backend& backend, JobClock const& clock);

  Ticket start(Collective const& collective) override;
  TimeSpan finish(GroupId group, Ticket ticket) override;
  void post(Message const& message) override;
  TimeSpan wait(Message const& message) override;
  void barrier() override {}
  void fail(std::exception_ptr const& /*error*/) override {}

  /// Whether tensors are touched at all, for who times what else happens: without it, what a
  /// collective or message leaves in them is what was there.
  void moves_tensors(bool moves) { moves_tensors_ = moves; }

 private:
  struct Group {
    std::int64_t member = 0;  ///< this rank's number in it
    std::int64_t size = 1;
    SimTime idle{0};  ///< the group's stream is busy until here, in this iteration
    std::int64_t iteration = 0;
  };
  void compute(Collective const& collective, Group const& group);

  Backend& backend_;
  JobClock const& clock_;
  bool buffers_sends_;
  bool moves_tensors_ = true;
  RandomNumbers numbers_;
  std::map<GroupId, Group> groups_;
  Ticket next_ = 0;
  std::map<Ticket, TimeSpan> under_way_;
  std::map<std::pair<Transfer::End, std::int32_t>, Message> posted_;
};

}  // namespace stagecraft
