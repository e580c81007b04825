#include "libsim/engine/recorded_times.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft {

std::vector<MessageEnds> ends_of_messages(std::vector<RankTimes> const& ranks,
                                          std::int32_t messages) {
  std::vector<MessageEnds> all(static_cast<std::size_t>(messages));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<Transfer> const& transfers = ranks[rank].order.transfers;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      MessageEnds& ends = all[static_cast<std::size_t>(transfers[i].message)];
      (transfers[i].end == Transfer::End::send ? ends.send : ends.receive) = {rank, i};
    }
  }
  return all;
}

TimeRecorder::TimeRecorder(CostedPlan const& costed) : costed_{costed} {
  times_.ranks.reserve(costed.plan().stages.size());
  for (StagePlan const& stage : costed.plan().stages) {
    RankTimes& times = times_.ranks.emplace_back();
    times.order = unroll(stage.program);
    times.entries.resize(times.order.entries.size());
    times.transfers.resize(times.order.transfers.size());
  }
  messages_ = ends_of_messages(times_.ranks, costed.plan().messages);
}

void TimeRecorder::transferred(StageId stage, std::int32_t transfer, SimTime start, SimTime end) {
  Transfer const& told =
      times_.ranks[stage.index()].order.transfers[static_cast<std::size_t>(transfer)];
  MessageEnds const& ends = messages_[static_cast<std::size_t>(told.message)];
  Interval& sent = times_.ranks[ends.send.rank].transfers[ends.send.transfer];
  Interval& received = times_.ranks[ends.receive.rank].transfers[ends.receive.transfer];
  if (costed_.plan().config.schedule.p2p == P2p::blocking) {
    sent = received = {start, end};
    return;
  }
  SimTime const occupancy = costed_.channels()[static_cast<std::size_t>(told.channel)].occupancy;
  sent = {start, start + occupancy};
  received = {end - occupancy, end};
}

RecordedTimes TimeRecorder::finish(SimTime period) && {
  times_.period = period;
  for (RankTimes const& rank : times_.ranks) {
    for (Interval const& entry : rank.entries) {
      times_.makespan = std::max(times_.makespan, entry.end);
    }
  }
  return std::move(times_);
}

RecordedTimes record_times(CostedPlan const& costed) {
  TimeRecorder recorder{costed};
  Timeline const timeline = play(costed.timeline(), recorder);
  return std::move(recorder).finish(timeline.period);
}

}  // namespace stagecraft
