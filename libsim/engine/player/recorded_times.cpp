#include "libsim/engine/player/recorded_times.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft {

std::vector<MessageEnds> ends_of_messages(std::vector<RecordedStage> const& stages,
                                          std::int32_t messages) {
  std::vector<MessageEnds> all(static_cast<std::size_t>(messages));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<Transfer> const& transfers = stages[stage].order.transfers;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      MessageEnds& ends = all[static_cast<std::size_t>(transfers[i].message)];
      (transfers[i].end == Transfer::End::send ? ends.send : ends.receive) = {stage, i};
    }
  }
  return all;
}

TimeRecorder::TimeRecorder(CostedPlan const& costed) : costed_{costed} {
  times_.stages.reserve(costed.plan().stages.size());
  for (StagePlan const& stage : costed.plan().stages) {
    RecordedStage& times = times_.stages.emplace_back();
    times.order = unroll(stage.program);
    times.entries.resize(times.order.entries.size());
    times.transfers.resize(times.order.transfers.size());
  }
  messages_ = ends_of_messages(times_.stages, costed.plan().messages);
  reductions_.resize(times_.stages.size());
}

void TimeRecorder::ran(StageId stage, RanEntry const& what, SimTime start, SimTime end) {
  Task const& task = costed_.plan().stages[stage].tasks[static_cast<std::size_t>(what.task)];
  if (task.stream == Stream::data_parallel) reductions_[stage.index()].push_back(what.entry);
  waited(stage, what.entry, start, end);
}

void TimeRecorder::shared_links(StageId stage, SimTime from, SimTime beside, SimTime delay) {
  std::vector<Interval>& entries = times_.stages[stage.index()].entries;
  std::vector<std::int32_t> const& reductions = reductions_[stage.index()];
  for (auto entry = reductions.rbegin(); entry != reductions.rend(); ++entry) {
    Interval& ran = entries[static_cast<std::size_t>(*entry)];
    if (ran.end <= from) break;
    ran = {delayed_by_sharing(ran.start, from, beside, delay),
           delayed_by_sharing(ran.end, from, beside, delay)};
  }
}

void TimeRecorder::transferred(StageId stage, std::int32_t transfer, SimTime start, SimTime end) {
  Transfer const& told =
      times_.stages[stage.index()].order.transfers[static_cast<std::size_t>(transfer)];
  MessageEnds const& ends = messages_[static_cast<std::size_t>(told.message)];
  Interval& sent = times_.stages[ends.send.stage].transfers[ends.send.transfer];
  Interval& received = times_.stages[ends.receive.stage].transfers[ends.receive.transfer];
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
  for (RecordedStage const& stage : times_.stages) {
    for (Interval const& entry : stage.entries) {
      times_.makespan = std::max(times_.makespan, entry.end);
    }
  }
  return std::move(times_);
}

}  // namespace stagecraft
