#include "libexec/comm/mpi/mpi_world.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_session.hpp"
#include "libexec/comm/mpi/mpi_group.hpp"
#include "libexec/comm/mpi/mpi_progress.hpp"
#include "libexec/comm/stage_edges.hpp"
#include "libexec/comm/thread_world.hpp"

namespace stagecraft {
namespace {

using std::chrono::nanoseconds;

/// The largest number of numbers in one message, because MPI counts with int.
constexpr std::int64_t most_numbers = 1 << 26;

void send_numbers(int to, std::vector<std::int64_t> const& numbers) {
  auto const count = static_cast<std::int64_t>(numbers.size());
  check(MPI_Send(&count, 1, MPI_INT64_T, to, 0, MPI_COMM_WORLD));
  for (std::int64_t at = 0; at < count; at += most_numbers) {
    int const part = static_cast<int>(std::min(most_numbers, count - at));
    check(MPI_Send(numbers.data() + at, part, MPI_INT64_T, to, 0, MPI_COMM_WORLD));
  }
}

std::vector<std::int64_t> receive_numbers(int from) {
  std::int64_t count = 0;
  check(MPI_Recv(&count, 1, MPI_INT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  for (std::int64_t at = 0; at < count; at += most_numbers) {
    int const part = static_cast<int>(std::min(most_numbers, count - at));
    check(MPI_Recv(numbers.data() + at, part, MPI_INT64_T, from, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE));
  }
  return numbers;
}

/// Whether this process runs on the machine of rank 0.
bool is_with_first() {
  using Name = std::array<char, MPI_MAX_PROCESSOR_NAME>;
  Name own{};
  int length = 0;
  check(MPI_Get_processor_name(own.data(), &length));
  Name first = own;
  check(MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD));
  return own == first;
}

/// Rank 0 answers the questions for its time.
void tell_time(int to) {
  for (int i = 0; i < time_questions; ++i) {
    check(MPI_Recv(nullptr, 0, MPI_BYTE, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    std::int64_t const now = nanoseconds_now();
    check(MPI_Send(&now, 1, MPI_INT64_T, to, 0, MPI_COMM_WORLD));
  }
}

std::int64_t ask_time() {
  std::int64_t theirs = 0;
  check(MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
  check(MPI_Recv(&theirs, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  return theirs;
}

/// One end of a message. Its number is its tag: an iteration uses each number once, and barriers
/// separate iterations.
///
/// An unbuffered send is synchronous: it ends when its receiver has posted, as blocking p2p
/// requires. A buffered send is copied when it is posted, because MPI reads the sent tensor until
/// the message has left; then the copy is released.
class MpiMessage final : public MpiOperation {
 public:
  enum class Send : std::uint8_t { synchronous, buffered };

  /// \throws CommunicationError  if MPI cannot count its bytes.
  MpiMessage(MPI_Comm comm, Message const& message, Send send, JobClock const& clock);
  Progress advance() override;
  std::string description() const override;

 private:
  void start();

  MPI_Comm comm_;
  Message message_;
  JobClock const& clock_;
  bool is_synchronous_;
  bool is_started_ = false;
  std::vector<std::byte> kept_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

MpiMessage::MpiMessage(MPI_Comm comm, Message const& message, Send send, JobClock const& clock)
    : comm_{comm}, message_{message}, clock_{clock}, is_synchronous_{send == Send::synchronous} {
  if (message.bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw CommunicationError{"a message of " + std::to_string(message.bytes) +
                             " bytes is longer than MPI allows"};
  }
  time_ = {message.posted, message.posted};
  if (message.end == Transfer::End::receive || is_synchronous_) return;
  auto const* const data = static_cast<std::byte const*>(message.data);
  kept_.assign(data, data + message.bytes);
  message_.data = kept_.data();
}

MpiOperation::Progress MpiMessage::advance() {
  bool const is_first = !is_started_;
  if (is_first) start();
  is_started_ = true;
  int is_done = 0;
  MPI_Status status;
  check(MPI_Test(&request_, &is_done, &status));
  if (is_done == 0) return is_first ? Progress::some : Progress::none;
  bool const is_receive = message_.end == Transfer::End::receive;
  if (is_receive) {
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes));
    if (static_cast<std::size_t>(bytes) != message_.bytes) {
      throw std::logic_error{"the ends of a message disagree about its size"};
    }
  }
  // Nothing waits for a buffered send to leave, so the clock may have been reset meanwhile.
  if (is_receive || is_synchronous_) time_.end = std::max(message_.posted, clock_.now());
  return Progress::done;
}

std::string MpiMessage::description() const {
  bool const is_send = message_.end == Transfer::End::send;
  return to_string(message_.payload) + " of microbatch " +
         std::to_string(message_.microbatch.value()) +
         (is_send ? " to be received by rank " : " from rank ") +
         std::to_string(message_.peer.value());
}

void MpiMessage::start() {
  int const bytes = static_cast<int>(message_.bytes);
  if (message_.end == Transfer::End::receive) {
    check(MPI_Irecv(message_.data, bytes, MPI_BYTE, message_.peer.value(), message_.number, comm_,
                    &request_));
    return;
  }
  auto const send = is_synchronous_ ? MPI_Issend : MPI_Isend;
  check(send(message_.data, bytes, MPI_BYTE, message_.peer.value(), message_.number, comm_,
             &request_));
}

}  // namespace

MpiSession::MpiSession(Describe describe)
    : describe_{std::move(describe)}, progress_{std::make_unique<MpiProgress>()} {}
MpiSession::~MpiSession() = default;

RankId MpiSession::rank() const { return RankId{progress_->rank()}; }
int MpiSession::size() const { return progress_->size(); }

void MpiSession::fail(std::exception_ptr const& error) {
  ErrorReport const report = describe_(error);
  progress_->fail(report.exit_code, report.reason);
}

std::vector<MpiSession::Numbers> MpiSession::gather(Numbers const& numbers) {
  std::vector<Numbers> all;
  progress_->run([&] {
    if (rank() != RankId{0}) return send_numbers(0, numbers);
    all.push_back(numbers);
    for (int i = 1; i < size(); ++i) all.push_back(receive_numbers(i));
  });
  return all;
}

void MpiSession::broadcast(std::span<std::byte> bytes) {
  progress_->run([&] {
    check(MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD));
  });
}

nanoseconds MpiSession::clock_offset() {
  nanoseconds offset{0};
  progress_->run([&] {
    bool const is_near = is_with_first();
    if (rank() == RankId{0}) {
      for (int i = 1; i < size(); ++i) tell_time(i);
      return;
    }
    offset = offset_of_clock(ask_time);
    if (is_near) offset = nanoseconds{0};
  });
  return offset;
}

/// A process's communicator. It owns MPI's communicators, one for each of its groups and one for
/// all messages; the session has the thread that alone calls MPI.
///
/// Between two calls each operation that is not over is in the hands of that thread, and in
/// `collectives_` or `posted_` until somebody waits for it. Its tensors belong to the caller.
class MpiWorld::RankCommunicator : public Communicator {
 public:
  RankCommunicator(TrainingPlan const& plan, MpiSession& session, JobClock const& clock)
      : session_{session},
        progress_{session.progress()},
        clock_{clock},
        job_{plan.roles.job},
        send_{buffers_sends(plan) ? MpiMessage::Send::buffered : MpiMessage::Send::synchronous} {
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
    std::shared_ptr<MpiCollective const> after;
    if (collective.after) {
      after = collectives_.at({collective.after->group, collective.after->ticket});
    }
    auto operation =
        std::make_shared<MpiCollective>(group, ticket, collective, clock_, std::move(after));
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
  std::map<std::pair<GroupId, Ticket>, std::shared_ptr<MpiCollective>> collectives_;
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
