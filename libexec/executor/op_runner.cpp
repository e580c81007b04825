#include "libexec/executor/op_runner.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace stagecraft {

void OpRunner::record_now(Op const& op, OpPlace const& place) {
  context_.record(op, place, context_.clock.instant());
}

void OpRunner::start(Op const& op,
                     OpPlace const& place,
                     std::vector<Collective> collectives,
                     std::int32_t position,
                     std::vector<std::int64_t> sizes) {
  TimeSpan const now = context_.clock.instant();
  Pending pending{.position = position, .group = op.group.value(), .tickets = {}};
  pending.row = context_.record(op, place, now);
  SimTime duration = context_.duration_of(op);
  // Those of different groups have no order among themselves. What the compute stream has waited
  // for is over.
  std::optional<StartedCollective> after;
  auto const before = std::ranges::find(pending_, op.waits_for, &Pending::position);
  if (before != pending_.end()) after = {before->group, before->tickets.back()};
  for (Collective& collective : collectives) {
    collective.kind = op.kind;
    collective.group = pending.group;
    collective.reduction = op.reduction;
    collective.op = op.name;
    collective.issued = now.start;
    collective.after = after;
    // The duration is that of all of them together.
    collective.duration = std::exchange(duration, SimTime{0});
    pending.tickets.push_back(context_.communicator.start(collective));
  }
  pending.sizes = std::move(sizes);  // moving a vector keeps the addresses of its elements
  pending_.push_back(std::move(pending));
}

void OpRunner::finish(std::int32_t last) {
  while (!pending_.empty() && pending_.front().position <= last) {
    Pending const& first = pending_.front();
    TimeSpan all;
    for (Communicator::Ticket const ticket : first.tickets) {
      TimeSpan const time = context_.communicator.finish(first.group, ticket);
      all = ticket == first.tickets.front() ? time : joined(all, time);
    }
    if (!first.tickets.empty()) {
      if (context_.recorder != nullptr) context_.recorder->set_time(first.row, all);
      context_.clock.wait_until(all.end);
    }
    pending_.erase(pending_.begin());
  }
}

}  // namespace stagecraft
