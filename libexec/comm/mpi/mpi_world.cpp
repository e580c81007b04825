#include "libexec/comm/mpi/mpi_world.hpp"

#include <exception>
#include <map>
#include <utility>

#include "libexec/comm/communication_error.hpp"
#include "libexec/comm/mpi/mpi_check.hpp"
#include "libexec/comm/mpi/mpi_group.hpp"
#include "libexec/comm/mpi/mpi_message.hpp"

namespace stagecraft {

class MpiWorld::RankCommunicator : public Communicator {
 public:
  RankCommunicator(TrainingPlan const& plan, MpiSession& session, JobClock const& clock)
      : session_{session},
        progress_{session.progress()},
        clock_{clock},
        job_{plan.roles.job},
        send_{plan.config.schedule.p2p == P2p::overlapped ? MpiMessage::Send::buffered
                                                          : MpiMessage::Send::synchronous} {
    progress_.run([&] {
      for (GroupId const group : plan.groups.ids()) split(plan.groups, group, session.rank());
      check(MPI_Comm_dup(MPI_COMM_WORLD, &messages_));
      require_tags(plan.messages);
    });
  }

  /// All processes call it, because MPI_Comm_free is collective.
  void close() {
    progress_.run([&] {
      for (auto& [id, group] : groups_) check(MPI_Comm_free(&group.comm));
      check(MPI_Comm_free(&messages_));
    });
  }

  Ticket start(Collective const& collective) override {
    MpiGroup& group = groups_.at(collective.group);
    Ticket const ticket = group.issued++;
    auto operation = std::make_shared<MpiCollective>(group, ticket, collective, clock_);
    progress_.add(operation);
    collectives_.emplace(std::pair{collective.group, ticket}, std::move(operation));
    return ticket;
  }
  TimeSpan finish(GroupId group, Ticket ticket) override {
    auto const operation = collectives_.extract(std::pair{group, ticket}).mapped();
    progress_.wait(*operation);
    return operation->time();
  }

  void post(Message const& message) override {
    auto operation = std::make_shared<MpiMessage>(messages_, message, send_, clock_);
    progress_.add(operation);
    posted_.insert_or_assign({message.end, message.number}, std::move(operation));
  }
  TimeSpan wait(Message const& message) override {
    auto const operation = posted_.extract(std::pair{message.end, message.number}).mapped();
    bool const is_buffered =
        message.end == Transfer::End::send && send_ == MpiMessage::Send::buffered;
    if (is_buffered) return {message.posted, message.posted};
    progress_.wait(*operation);
    return operation->time();
  }

  void barrier() override {
    // The members of a collective exchange descriptions, even if there is nothing to reduce.
    finish(job_, start({.group = job_}));
  }

  void fail(std::exception_ptr const& error) override { session_.fail(error); }

  MpiSession& session() { return session_; }

 private:
  void split(RankGroups const& groups, GroupId id, RankId rank) {
    auto own = groups.membership(id, rank);
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_split(MPI_COMM_WORLD, own ? own->members.front().value() : MPI_UNDEFINED,
                         own ? own->member : 0, &comm));
    if (!own) return;
    MpiGroup& group = groups_[id];
    group.comm = comm;
    group.ranks = std::move(own->members);
    check(MPI_Comm_rank(comm, &group.member));
    check(MPI_Comm_size(comm, &group.size));
  }

  /// Message numbers are tags.
  void require_tags(std::int64_t messages) const {
    int* most = nullptr;
    int is_known = 0;
    check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &is_known));
    if (is_known == 0 || messages <= *most) return;
    throw CommunicationError{"the plan has " + std::to_string(messages) +
                             " messages per iteration; this MPI has tags up to " +
                             std::to_string(*most)};
  }

  MpiSession& session_;
  MpiProgress& progress_;
  JobClock const& clock_;
  GroupId job_;
  MpiMessage::Send send_;
  MPI_Comm messages_ = MPI_COMM_NULL;
  std::map<GroupId, MpiGroup> groups_;
  /// Operations in flight: collectives by group and ticket, messages by end and number.
  std::map<std::pair<GroupId, Ticket>, std::shared_ptr<MpiOperation>> collectives_;
  std::map<std::pair<Transfer::End, std::int32_t>, std::shared_ptr<MpiOperation>> posted_;
};

MpiWorld::MpiWorld(TrainingPlan const& plan, MpiSession& session, JobClock const& clock)
    : communicator_{std::make_unique<RankCommunicator>(plan, session, clock)} {}

MpiWorld::~MpiWorld() {
  if (std::uncaught_exceptions() == 0) communicator_->close();
}

Communicator& MpiWorld::communicator() { return *communicator_; }

std::vector<MpiWorld::Numbers> MpiWorld::gather(Numbers const& numbers) {
  return communicator_->session().gather(numbers);
}

std::chrono::nanoseconds MpiWorld::clock_offset() {
  return communicator_->session().clock_offset();
}

}  // namespace stagecraft
