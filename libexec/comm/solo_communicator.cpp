#include "libexec/comm/solo_communicator.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "libexec/comm/collectives.hpp"
#include "libexec/comm/stage_edges.hpp"

namespace stagecraft {

SoloCommunicator::SoloCommunicator(TrainingPlan const& plan,
                                   RankId rank,
                                   Backend& backend,
                                   JobClock const& clock)
    : backend_{backend},
      clock_{clock},
      buffers_sends_{buffers_sends(plan)},
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
  if (moves_tensors_ && collective.most_rows > 0) limit_rows(collective, group);
  if (group.iteration != clock_.iteration()) group.idle = SimTime{0};
  group.iteration = clock_.iteration();
  SimTime begin = std::max(group.idle, collective.issued);
  if (collective.after) begin = std::max(begin, under_way_.at(collective.after->ticket).end);
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

void SoloCommunicator::limit_rows(Collective const& collective, Group const& group) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(collective.elements));
  std::size_t const bytes = counts.size() * sizeof counts[0];
  backend_.read(counts.data(), collective.target, bytes);
  std::int64_t left = collective.most_rows;
  std::int64_t const of_member = collective.elements / group.size;
  // The rank's own rows come first.
  for (std::int64_t i = 0; i < collective.elements; ++i) {
    auto const at = (group.member * of_member + i) % collective.elements;
    std::int32_t& count = counts[static_cast<std::size_t>(at)];
    count = static_cast<std::int32_t>(std::min<std::int64_t>(count, left));
    left -= count;
  }
  backend_.write(collective.target, counts.data(), bytes);
}

void SoloCommunicator::compute(Collective const& collective, Group const& group) {
  auto const copy = [&](void* target, void const* source, std::int64_t elements) {
    if (target == source || elements == 0) return;
    backend_.copy(target, source,
                  static_cast<std::size_t>(elements * element_size(collective.type)));
  };
  // Copies what there is, and makes up the rest.
  auto const fill = [&](void* target, std::int64_t elements, std::int64_t available) {
    std::int64_t const copied = std::min(elements, available);
    copy(target, collective.source, copied);
    if (copied == elements) return;
    numbers_.write(backend_, element_at(target, copied, collective.type),
                   static_cast<std::size_t>((elements - copied) * element_size(collective.type)));
  };
  switch (collective.kind) {
    case OpKind::all_to_all:  // the others' tensors are taken to be like the own one
      fill(collective.target, collective.received_begin(group.size),
           collective.sent_begin(group.size));
      return;
    case OpKind::reduce_scatter: {
      std::int64_t const begin = collective.piece_begin(group.member);
      copy(collective.target, element_at(collective.source, begin, collective.type),
           collective.piece_begin(group.member + 1) - begin);
      return;
    }
    case OpKind::all_gather: {
      std::int64_t const own =
          collective.piece_begin(group.member + 1) - collective.piece_begin(group.member);
      for (std::int64_t i = 0; i < group.size; ++i) {
        std::int64_t const begin = collective.piece_begin(i);
        std::int64_t const elements = collective.piece_begin(i + 1) - begin;
        // The others' pieces are taken to be like the own one, as far as that goes.
        fill(element_at(collective.target, begin, collective.type), elements, own);
      }
      return;
    }
    default:  // from a whole tensor to a whole one; the others' are taken to be like the own one
      if (!is_collective(collective.kind)) throw std::logic_error{"not a collective"};
      copy(collective.target, collective.source, collective.elements);
  }
}

}  // namespace stagecraft
