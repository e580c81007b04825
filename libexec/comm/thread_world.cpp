#include "libexec/comm/thread_world.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "libexec/comm/job_health.hpp"
#include "libexec/comm/stage_edges.hpp"

namespace stagecraft {

ThreadGroup::ThreadGroup(std::size_t members,
                         LocalTransport& transport,
                         JobClock const& clock,
                         JobHealth const& health)
    : transport_{transport}, clock_{clock}, health_{health}, next_(members, 0) {}

Communicator::Ticket ThreadGroup::start(std::size_t member, Collective const& collective) {
  std::unique_lock lock{mutex_};
  Communicator::Ticket const ticket = next_[member]++;
  auto const place = static_cast<std::size_t>(ticket - first_);
  if (place == in_flight_.size()) {
    InFlight& begun = in_flight_.emplace_back();
    begun.calls.resize(next_.size());
    begun.has_arrived.resize(next_.size());
    begun.times.resize(next_.size());
  }
  InFlight& joined = in_flight_[place];
  joined.calls[member] = collective;
  joined.has_arrived[member] = true;
  ++joined.arrived;
  if (collective.kind == OpKind::prefix_reduce) {
    run_prefixes(joined, lock);
  } else if (joined.arrived == next_.size()) {
    run_all(joined, lock);
  }
  return ticket;
}

void ThreadGroup::run_all(InFlight& joined, std::unique_lock<std::mutex>& lock) {
  // The tensors of a rank that has failed may have been released.
  if (health_.has_failed()) throw PeerFailure{"another rank has failed"};
  compute_unlocked(joined.calls, lock);
  if (iteration_ != clock_.iteration()) idle_ = SimTime{0};
  iteration_ = clock_.iteration();
  SimTime start = idle_;
  SimTime duration{0};
  for (Collective const& call : joined.calls) {
    start = std::max(start, call.issued);
    duration = std::max(duration, call.duration);
  }
  bool const is_virtual = clock_.is_virtual();
  SimTime const end = is_virtual ? start + duration : std::max(start, clock_.now());
  if (is_virtual) idle_ = end;
  std::fill(joined.times.begin(), joined.times.end(), TimeSpan{start, end});
  joined.done = next_.size();
  changed_.notify_all();
}

void ThreadGroup::run_prefixes(InFlight& joined, std::unique_lock<std::mutex>& lock) {
  while (joined.done < next_.size() && !joined.is_computing) {
    auto const begin = static_cast<std::ptrdiff_t>(joined.done);
    Collective const first = joined.calls[joined.done];
    std::ptrdiff_t const end = begin + first.members_together;
    auto const arrived = joined.has_arrived.begin();
    if (!std::all_of(arrived + begin, arrived + end, [](bool has) { return has; })) return;
    if (health_.has_failed()) throw PeerFailure{"another rank has failed"};
    std::vector<Collective> calls(joined.calls.begin() + begin, joined.calls.begin() + end);
    SimTime start = begin == 0 ? SimTime{0} : joined.times[joined.done - 1].end;
    for (Collective const& call : calls) start = std::max(start, call.issued);
    if (begin > 0) {
      // What the stages before have takes part as one member.
      calls.insert(calls.begin(), first);
      calls.front().source = calls.front().target = joined.so_far.data();
    }
    for (Collective& call : calls) call.kind = OpKind::all_reduce;
    joined.is_computing = true;
    compute_unlocked(calls, lock);
    joined.is_computing = false;
    auto const* const result = static_cast<std::byte const*>(first.target);
    joined.so_far.assign(result, result + first.elements * element_size(first.type));
    SimTime const over =
        clock_.is_virtual() ? start + first.duration : std::max(start, clock_.now());
    std::fill(joined.times.begin() + begin, joined.times.begin() + end, TimeSpan{start, over});
    joined.done = static_cast<std::size_t>(end);
    changed_.notify_all();
  }
}

ThreadGroup::InFlight& ThreadGroup::wait_for(std::size_t member,
                                             Communicator::Ticket ticket,
                                             std::unique_lock<std::mutex>& lock) {
  InFlight& joined = in_flight_[static_cast<std::size_t>(ticket - first_)];
  wait_while_healthy(changed_, lock, health_, [&] { return joined.done > member; });
  return joined;
}

TimeSpan ThreadGroup::wait(std::size_t member, Communicator::Ticket ticket) {
  std::unique_lock lock{mutex_};
  return wait_for(member, ticket, lock).times[member];
}

TimeSpan ThreadGroup::finish(std::size_t member, Communicator::Ticket ticket) {
  std::unique_lock lock{mutex_};
  InFlight& joined = wait_for(member, ticket, lock);
  TimeSpan const time = joined.times[member];
  ++joined.left;
  while (!in_flight_.empty() && in_flight_.front().left == next_.size()) {
    in_flight_.pop_front();
    ++first_;
  }
  return time;
}

void ThreadGroup::compute_unlocked(std::vector<Collective> const& calls,
                                   std::unique_lock<std::mutex>& lock) {
  ++computing_;
  lock.unlock();
  std::exception_ptr error;
  try {
    // No other member uses these tensors: theirs have arrived, and none leaves before it is done.
    transport_.run(calls);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  --computing_;
  changed_.notify_all();
  if (error) std::rethrow_exception(error);
}

void ThreadGroup::wait_until_quiet() {
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [this] { return computing_ == 0; });
}

ThreadMailboxes::ThreadMailboxes(std::size_t messages,
                                 bool buffers_sends,
                                 LocalTransport& transport,
                                 JobClock const& clock,
                                 JobHealth const& health)
    : transport_{transport},
      clock_{clock},
      health_{health},
      buffers_sends_{buffers_sends},
      boxes_(messages) {}

void ThreadMailboxes::post(Message const& message) {
  std::scoped_lock const lock{mutex_};
  if (health_.has_failed()) throw PeerFailure{"another rank has failed"};
  Box& box = boxes_[static_cast<std::size_t>(message.number)];
  bool const is_send = message.end == Transfer::End::send;
  (is_send ? box.send : box.receive) = message;
  (is_send ? box.is_sent : box.is_open) = true;
  copy_if_both(box);
}

TimeSpan ThreadMailboxes::wait(Message const& message) {
  std::unique_lock lock{mutex_};
  Box& box = boxes_[static_cast<std::size_t>(message.number)];
  bool const is_send = message.end == Transfer::End::send;
  if (is_send && buffers_sends_ && !box.is_copied) {
    box.kept = transport_.keep(box.send);
  } else {
    wait_while_healthy(changed_, lock, health_, [&] { return box.is_copied; });
  }
  TimeSpan const time = time_of(box, message.end);
  if (++box.waits == 2) box = {};
  return time;
}

void ThreadMailboxes::copy_if_both(Box& box) {
  if (!box.is_sent || !box.is_open) return;
  if (box.send.bytes != box.receive.bytes) {
    throw std::logic_error{"the ends of a message disagree about its size"};
  }
  transport_.copy(box.send, box.receive);
  box.is_copied = true;
  if (!clock_.is_virtual()) box.copied = clock_.now();
  changed_.notify_all();
}

TimeSpan ThreadMailboxes::time_of(Box const& box, Transfer::End end) const {
  bool const is_send = end == Transfer::End::send;
  SimTime const posted = is_send ? box.send.posted : box.receive.posted;
  if (!clock_.is_virtual()) return {posted, std::max(posted, box.copied)};
  // As in the simulator, a blocking message starts when both ends have posted it, an overlapped one
  // when its sender has.
  Message const& sent = box.send;
  if (!buffers_sends_) {
    SimTime const start = std::max(sent.posted, box.receive.posted);
    return {start, start + sent.latency + sent.occupancy};
  }
  SimTime const left = sent.posted + sent.occupancy;
  return {sent.posted, is_send ? left : left + sent.latency};
}

class ThreadWorld::RankCommunicator : public Communicator {
 public:
  RankCommunicator(ThreadWorld& world, RankId rank) : world_{world}, rank_{rank} {
    for (GroupId const group : world.ranks_.ids()) {
      auto const own = world.ranks_.membership(group, rank);
      if (!own) continue;
      memberships_.emplace(group, Membership{world.groups_.at({group, own->members.front()}).get(),
                                             static_cast<std::size_t>(own->member)});
    }
    RankId const first = world.ranks_.at_stage(rank, StageId{0});
    mailboxes_ = world.mailboxes_[first.index()].get();
  }

  Ticket start(Collective const& collective) override {
    Membership const& membership = memberships_.at(collective.group);
    Collective own = collective;
    if (own.after) {
      Membership const& before = memberships_.at(own.after->group);
      own.issued = std::max(own.issued, before.group->wait(before.member, own.after->ticket).end);
    }
    return membership.group->start(membership.member, own);
  }
  TimeSpan finish(GroupId group, Ticket ticket) override {
    Membership const& membership = memberships_.at(group);
    return membership.group->finish(membership.member, ticket);
  }
  void post(Message const& message) override { mailboxes_->post(message); }
  TimeSpan wait(Message const& message) override { return mailboxes_->wait(message); }
  void barrier() override {
    ThreadGroup& everyone = world_.everyone_;
    everyone.finish(rank_.index(), everyone.start(rank_.index(), {}));
  }
  void fail(std::exception_ptr const& error) override {
    try {
      std::rethrow_exception(error);
    } catch (std::exception const& problem) {
      world_.health_.fail(rank_, problem.what());
    }
    for (auto const& [group, membership] : memberships_) membership.group->wait_until_quiet();
    mailboxes_->wait_until_quiet();
  }

 private:
  struct Membership {
    ThreadGroup* group = nullptr;
    std::size_t member = 0;
  };
  ThreadWorld& world_;
  RankId rank_;
  std::map<GroupId, Membership> memberships_;
  ThreadMailboxes* mailboxes_ = nullptr;
};

ThreadWorld::ThreadWorld(TrainingPlan const& plan,
                         LocalTransport& transport,
                         JobClock const& clock,
                         JobHealth& health)
    : ranks_{plan.groups},
      health_{health},
      everyone_{static_cast<std::size_t>(ranks_.ranks()), nothing_, clock, health} {
  for (RankId const rank : ranks_.rank_ids()) {
    for (GroupId const group : ranks_.ids()) {
      auto const own = ranks_.membership(group, rank);
      if (!own || own->member > 0) continue;
      groups_[{group, rank}] =
          std::make_unique<ThreadGroup>(own->members.size(), transport, clock, health);
    }
  }
  for (int i = 0; i < ranks_.ranks_per_stage(); ++i) {
    mailboxes_.push_back(std::make_unique<ThreadMailboxes>(
        static_cast<std::size_t>(plan.messages), buffers_sends(plan), transport, clock, health));
  }
}

ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::communicator(RankId rank) {
  return std::make_unique<RankCommunicator>(*this, rank);
}

}  // namespace stagecraft
