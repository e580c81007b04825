#include "libexec/comm/thread_world.hpp"

#include <algorithm>

#include "libexec/comm/plan_groups.hpp"

namespace stagecraft {
class ThreadWorld::RankCommunicator : public Communicator {
 public:
  RankCommunicator(ThreadWorld& world, int rank) : world_{world}, rank_{rank} {
    TrainingConfig const& config = world.config_;
    for (CollectiveGroup const group : all_groups) {
      if (!joins(config, group, rank)) continue;
      std::vector<int> const members = group_members(config, group, rank);
      auto const own = std::find(members.begin(), members.end(), rank);
      memberships_.emplace(group, Membership{world.groups_.at({group, members.front()}).get(),
                                             static_cast<std::size_t>(own - members.begin())});
    }
    RankPlace const place = place_of(config.parallel, rank);
    int const pipeline = place.data * config.parallel.tensor + place.tensor;
    mailboxes_ = world.mailboxes_[static_cast<std::size_t>(pipeline)].get();
  }

  Ticket start(Collective const& collective) override {
    Membership const& membership = memberships_.at(collective.group);
    return membership.group->start(membership.member, collective);
  }
  TimeSpan finish(CollectiveGroup group, Ticket ticket) override {
    Membership const& membership = memberships_.at(group);
    return membership.group->finish(membership.member, ticket);
  }
  void post(Message const& message) override { mailboxes_->post(message); }
  TimeSpan wait(Message const& message) override { return mailboxes_->wait(message); }
  void barrier() override {
    auto const member = static_cast<std::size_t>(rank_);
    ThreadGroup& everyone = world_.everyone_;
    everyone.finish(member, everyone.start(member, {}));
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
  int rank_;
  std::map<CollectiveGroup, Membership> memberships_;
  ThreadMailboxes* mailboxes_ = nullptr;
};

ThreadWorld::ThreadWorld(TrainingPlan const& plan,
                         LocalTransport& transport,
                         JobClock const& clock,
                         JobHealth& health)
    : config_{plan.config},
      health_{health},
      everyone_{static_cast<std::size_t>(world_size(plan.config.parallel)), nothing_, clock,
                health} {
  ParallelLayout const& layout = config_.parallel;
  for (int rank = 0; rank < world_size(layout); ++rank) {
    for (CollectiveGroup const group : all_groups) {
      if (!joins(config_, group, rank)) continue;
      std::vector<int> const members = group_members(config_, group, rank);
      auto& place = groups_[{group, members.front()}];
      if (!place) place = std::make_unique<ThreadGroup>(members.size(), transport, clock, health);
    }
  }
  bool const buffers_sends = config_.schedule.p2p == P2p::overlapped;
  for (int i = 0; i < layout.tensor * layout.data; ++i) {
    mailboxes_.push_back(std::make_unique<ThreadMailboxes>(
        static_cast<std::size_t>(plan.messages), buffers_sends, transport, clock, health));
  }
}

ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::communicator(int rank) {
  return std::make_unique<RankCommunicator>(*this, rank);
}

}  // namespace stagecraft
