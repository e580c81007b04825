#include "libsim/engine/recorded_times.hpp"

#include "libsim/engine/timeline_walk.hpp"

namespace stagecraft {

std::vector<MessageEnds> ends_of_messages(TrainingPlan const& plan) {
  std::vector<MessageEnds> messages(static_cast<std::size_t>(plan.messages));
  for (std::size_t rank = 0; rank < plan.stages.size(); ++rank) {
    std::vector<Transfer> const& transfers = plan.stages[rank].transfers;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      MessageEnds& ends = messages[static_cast<std::size_t>(transfers[i].message)];
      (transfers[i].end == Transfer::End::send ? ends.send : ends.receive) = {rank, i};
    }
  }
  return messages;
}

namespace {

class TimeRecorder {
 public:
  explicit TimeRecorder(PricedPlan const& priced)
      : priced_{priced}, messages_{ends_of_messages(priced.plan())} {
    for (StagePlan const& rank : priced.plan().stages) {
      times_.ranks.push_back({.steps = std::vector<Interval>(rank.steps.size()),
                              .transfers = std::vector<Interval>(rank.transfers.size())});
    }
  }

  // A group task is first waited for, then run: its own time is what stays.
  void ran(int rank, int step, SimTime start, SimTime end) { of(rank, step) = {start, end}; }
  void waited(int rank, int step, SimTime start, SimTime end) { of(rank, step) = {start, end}; }

  void transferred(int rank, int transfer, SimTime start, SimTime end) {
    TrainingPlan const& plan = priced_.plan();
    Transfer const& told =
        plan.stages[static_cast<std::size_t>(rank)].transfers[static_cast<std::size_t>(transfer)];
    MessageEnds const& ends = messages_[static_cast<std::size_t>(told.message)];
    Interval& sent = times_.ranks[ends.send.rank].transfers[ends.send.transfer];
    Interval& received = times_.ranks[ends.receive.rank].transfers[ends.receive.transfer];
    if (plan.config.schedule.p2p == P2p::blocking) {
      sent = received = {start, end};
      return;
    }
    RankProgram const& sender = priced_.programs()[ends.send.rank];
    bool const is_activation = told.payload == Transfer::Payload::activation;
    SimTime const occupancy = (is_activation ? sender.activation : sender.gradient).occupancy;
    sent = {start, start + occupancy};
    received = {end - occupancy, end};
  }

  RecordedTimes finish(SimTime makespan) && {
    times_.makespan = makespan;
    return std::move(times_);
  }

 private:
  Interval& of(int rank, int step) {
    return times_.ranks[static_cast<std::size_t>(rank)].steps[static_cast<std::size_t>(step)];
  }

  PricedPlan const& priced_;
  std::vector<MessageEnds> messages_;
  RecordedTimes times_;
};

}  // namespace

RecordedTimes record_times(PricedPlan const& priced) {
  TimeRecorder recorder{priced};
  SimTime const makespan = play(priced.timeline(), recorder).makespan;
  return std::move(recorder).finish(makespan);
}

}  // namespace stagecraft
