#include "libexec/comm/thread_world.hpp"

#include <algorithm>
#include <stdexcept>

#include "libexec/comm/job_health.hpp"

namespace stagecraft {

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
    return membership.group->start(membership.member, collective);
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
  bool const buffers_sends = plan.config.schedule.p2p == P2p::overlapped;
  for (int i = 0; i < ranks_.ranks_per_stage(); ++i) {
    mailboxes_.push_back(std::make_unique<ThreadMailboxes>(
        static_cast<std::size_t>(plan.messages), buffers_sends, transport, clock, health));
  }
}

ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::communicator(RankId rank) {
  return std::make_unique<RankCommunicator>(*this, rank);
}

}  // namespace stagecraft
