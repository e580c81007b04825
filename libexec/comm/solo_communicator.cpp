#include "libexec/comm/solo_communicator.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include "libexec/comm/collective_reduction.hpp"

namespace stagecraft {
namespace {

/// Whether an address is inside the whole tensor.
bool is_inside(void const* address, Collective const& collective) {
  std::byte const* const begin = static_cast<std::byte const*>(collective.target);
  std::byte const* const end = element_at(collective.target, collective.elements, collective.type);
  std::less<> const before;
  return !before(address, begin) && before(address, end);
}

}  // namespace

SoloCommunicator::SoloCommunicator(TrainingPlan const& plan,
                                   RankId rank,
                                   Backend& backend,
                                   JobClock const& clock)
    : backend_{backend},
      clock_{clock},
      buffers_sends_{plan.config.schedule.p2p == P2p::overlapped},
      numbers_{activation_type(plan.config.model.precision),
               static_cast<std::uint32_t>(plan.config.training.seed)} {
  for (GroupId const group : plan.groups.ids()) {
    auto const own = plan.groups.membership(group, rank);
    if (own) groups_[group] = {.member = own->member, .size = own->size()};
  }
}

Communicator::Ticket SoloCommunicator::start(Collective const& collective) {
  Group& group = groups_.at(collective.group);
  if (moves_tensors_) compute(collective, group);
  if (group.iteration != clock_.iteration()) group.idle = SimTime{0};
  group.iteration = clock_.iteration();
  SimTime const begin = std::max(group.idle, collective.issued);
  group.idle = begin + collective.duration;
  under_way_[next_] = {begin, group.idle};
  return next_++;
}

TimeSpan SoloCommunicator::finish(GroupId /*group*/, Ticket ticket) {
  return under_way_.extract(ticket).mapped();
}

void SoloCommunicator::post(Message const& message) {
  posted_[{message.end, message.number}] = message;
}

TimeSpan SoloCommunicator::wait(Message const& message) {
  Message const posted = posted_.extract(std::pair{message.end, message.number}).mapped();
  bool const is_send = message.end == Transfer::End::send;
  if (!is_send && moves_tensors_) numbers_.write(backend_, posted.data, posted.bytes);
  SimTime const left = posted.posted + posted.occupancy;
  return {posted.posted, is_send && buffers_sends_ ? left : left + posted.latency};
}

void SoloCommunicator::compute(Collective const& collective, Group const& group) {
  auto const copy = [&](void* target, void const* source, std::int64_t elements) {
    if (target == source || elements == 0) return;
    backend_.copy(target, source,
                  static_cast<std::size_t>(elements * element_size(collective.type)));
  };
  switch (collective.kind) {
    case OpKind::all_to_all:  // the others' tensors are taken to be like the own one
      copy(collective.target, collective.source,
           std::min(collective.sent_begin(group.size), collective.received_begin(group.size)));
      return;
    case OpKind::reduce_scatter: {
      std::int64_t const begin = collective.piece_begin(group.member);
      copy(collective.target, element_at(collective.source, begin, collective.type),
           collective.piece_begin(group.member + 1) - begin);
      return;
    }
    case OpKind::all_gather: {
      if (is_inside(collective.source, collective)) return;
      std::int64_t const own =
          collective.piece_begin(group.member + 1) - collective.piece_begin(group.member);
      for (std::int64_t i = 0; i < group.size; ++i) {
        std::int64_t const begin = collective.piece_begin(i);
        copy(element_at(collective.target, begin, collective.type), collective.source,
             std::min(own, collective.piece_begin(i + 1) - begin));
      }
      return;
    }
    default:  // from a whole tensor to a whole one; the others' are taken to be like the own one
      if (!is_collective(collective.kind)) throw std::logic_error{"not a collective"};
      copy(collective.target, collective.source, collective.elements);
  }
}

}  // namespace stagecraft
