#include "libsim/engine/player/timeline.hpp"

#include <algorithm>
#include <cassert>
#include <string>

namespace stagecraft {

namespace {

constexpr int one = 1'000'000;  ///< full speed, in millionths

/// A type for a time in picoseconds times a speed in millionths.
__extension__ using Wide = __int128;

SimTime rounded_quotient(Wide dividend, std::int64_t divisor) {
  return SimTime{static_cast<std::int64_t>((dividend + divisor / 2) / divisor)};
}

void check_stage(TimelineInput const& input, std::size_t number) {
  PlayedStage const& stage = input.stages[number];
  auto const refuse = [number](std::string const& problem) {
    throw std::invalid_argument{"stage " + std::to_string(number) + ": " + problem};
  };
  if (stage.durations.size() != stage.tasks.size()) {
    refuse("found " + std::to_string(stage.durations.size()) + " durations for " +
           std::to_string(stage.tasks.size()) + " tasks");
  }
  for (SimTime const duration : stage.durations) {
    if (duration < SimTime{0}) refuse("found a negative duration");
  }
  for (Task const& task : stage.tasks) {
    bool const is_offload = kind_of(task.stream) == StreamKind::offload;
    if (task.stream != Stream::compute && task.stream != Stream::data_parallel && !is_offload) {
      refuse(
          "found a task on another stream; accepted: compute, data_parallel, to_host, host, "
          "from_host");
    }
    if (!task.group) continue;
    if (input.groups == nullptr) refuse("found a task of a group in an input without groups");
    if (input.groups->stages(*task.group, StageId::of_index(number)).empty()) {
      refuse("found a task of the " + std::string{(*input.groups)[*task.group].name} +
             "; accepted: only on the stages that it joins");
    }
  }
}

}  // namespace

void check_timeline_input(TimelineInput const& input) {
  if (input.slowdown_millionths < 0 || input.slowdown_millionths >= one) {
    throw std::invalid_argument{"slowdown: found " + std::to_string(input.slowdown_millionths) +
                                " millionths; accepted: 0 to 999999"};
  }
  for (MessageCost const& cost : input.channels) {
    if (cost.latency < SimTime{0} || cost.occupancy < SimTime{0}) {
      throw std::invalid_argument{"found a negative transfer cost"};
    }
  }
  for (std::size_t stage = 0; stage < input.stages.size(); ++stage) check_stage(input, stage);
}

int times_of_loop(TimelineInput const& input) {
  for (PlayedStage const& stage : input.stages) {
    StageProgram const& program = *stage.program;
    if (program.steady_loop == StageProgram::none) continue;
    return program.entries[static_cast<std::size_t>(program.steady_loop)].times;
  }
  return 1;
}

SimTime ideal_time(Timeline const& timeline) {
  SimTime ideal{0};
  for (StageTimeline const& stage : timeline.stages) ideal = std::max(ideal, stage.busy);
  return ideal;
}

double bubble_fraction(Timeline const& timeline) {
  SimTime const ideal = ideal_time(timeline);
  return static_cast<double>((timeline.makespan - ideal).count()) /
         static_cast<double>(ideal.count());
}

SimTime slowed_end(SimTime start, SimTime duration, SimTime busy_until, int slowdown_millionths) {
  assert(0 <= slowdown_millionths && slowdown_millionths < one);
  if (busy_until <= start) return start + duration;
  int const speed = one - slowdown_millionths;
  Wide const wanted = Wide{duration.count()} * one;
  Wide const done_while_busy = Wide{(busy_until - start).count()} * speed;
  if (wanted <= done_while_busy) return start + rounded_quotient(wanted, speed);
  return busy_until + rounded_quotient(wanted - done_while_busy, one);
}

SimTime TaskBesideReductions::reaches(SimTime offset) const {
  SimTime const alone = slowed_end(start, offset, busy_until, slowdown_millionths);
  if (on_links == SimTime{0} || busy_until <= start) return alone;
  SimTime const both = std::min(alone, busy_until) - start;
  return alone + rounded_quotient(Wide{both.count()} * on_links.count(), duration.count());
}

SimTime TaskBesideReductions::beside() const {
  if (busy_until <= start) return SimTime{0};
  return std::min(slowed_end(start, duration, busy_until, slowdown_millionths), busy_until) - start;
}

SimTime TaskBesideReductions::delay() const {
  if (on_links == SimTime{0}) return SimTime{0};
  return rounded_quotient(Wide{beside().count()} * on_links.count(), duration.count());
}

SimTime delayed_by_sharing(SimTime time, SimTime from, SimTime beside, SimTime delay) {
  if (time <= from) return time;
  if (time >= from + beside) return time + delay;
  return time + rounded_quotient(Wide{(time - from).count()} * delay.count(), beside.count());
}

}  // namespace stagecraft
