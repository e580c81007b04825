#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "libexec/backends/numbers.hpp"
#include "libexec/comm/communicator.hpp"
#include "libexec/comm/thread_world.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The communicator of one rank that runs without the others: the rank computes, and communication
/// takes its modelled duration.
///
/// A collective does to the rank's tensors what it can do alone: all_reduce leaves the rank's own
/// summand, and so does prefix_reduce; all_gather copies the rank's piece to the place of every
/// piece (if the source is part of the target, the other pieces stay as they are); reduce_scatter
/// takes the rank's piece of its own summand. In an all_to_all the others' tensors are taken to be
/// like the own one; counts of rows that arrive so are cut to what there is room for. What such
/// pieces do not fill is random numbers. A received message is random numbers. So all values
/// are finite and shapes are right, but losses and gradients are not those of the model.
///
/// Peers are always ready: a message starts when this rank posts it, a collective when this rank
/// and the group's stream are ready.
class SoloCommunicator final : public Communicator {
 public:
  /// The backend and the clock, whose time is virtual, must outlive it.
  SoloCommunicator(TrainingPlan const& plan, RankId rank, Backend& backend, JobClock const& clock);

  Ticket start(Collective const& collective) override;
  TimeSpan finish(GroupId group, Ticket ticket) override;
  void post(Message const& message) override;
  TimeSpan wait(Message const& message) override;
  void barrier() override {}
  void fail(std::exception_ptr const& /*error*/) override {}

  /// Sets whether collectives and messages change tensors at all; a caller that only times the rest
  /// of a run turns it off.
  void moves_tensors(bool moves) { moves_tensors_ = moves; }

 private:
  struct Group {
    std::int64_t member = 0;  ///< this rank's index in the group
    std::int64_t size = 1;
    SimTime idle{0};  ///< until when the group's stream is busy in this iteration
    std::int64_t iteration = 0;
  };
  void compute(Collective const& collective, Group const& group);
  void limit_rows(Collective const& collective, Group const& group);

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
