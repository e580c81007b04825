#include "tests/libexec/nccl_emulation/communicator.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "tests/libexec/nccl_emulation/call.hpp"
#include "tests/libexec/nccl_emulation/launch.hpp"

namespace stagecraft::nccl_emulation {
namespace {

constexpr unsigned everybody = 1U << 30U;

struct Arrival {
  std::int64_t process;
  std::int32_t device;
  std::int32_t size;
};

struct Choice {
  std::int32_t color;
  std::int32_t key;
};

template <typename Value>
std::span<std::byte const> note_of(Value const& value) {
  return std::as_bytes(std::span{&value, 1});
}

template <typename Value>
Value value_of(std::span<std::byte const> note) {
  Value value;
  std::memcpy(&value, note.data(), sizeof value);
  return value;
}

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

}  // namespace

Communicator::Communicator(std::shared_ptr<Board> board, Place const& place)
    : board_{std::move(board)},
      place_{place},
      sent_(static_cast<std::size_t>(place.size)),
      received_(static_cast<std::size_t>(place.size)) {}

BoardKey Communicator::key(int rank, Channel channel, std::uint64_t number, int peer) const {
  return {place_.id, static_cast<std::uint32_t>(rank),
          static_cast<std::uint32_t>(channel) | static_cast<std::uint32_t>(peer) << 8U, number};
}
BoardKey Communicator::data_key(int rank, std::uint64_t number) const {
  return key(rank, data, number);
}
BoardKey Communicator::message_key(int from, int to, std::uint64_t number) const {
  return key(from, message, number, to);
}

void Communicator::require_ready() {
  ncclResult_t const now = state();
  if (now == ncclSuccess) return;
  if (now == ncclInProgress) {
    throw Failure{ncclInvalidArgument,
                  "a communicator is used before the previous call on it is over"};
  }
  throw Failure{now, "a communicator is used that has failed"};
}

ncclResult_t Communicator::state() {
  if (error_ != ncclSuccess || !under_way_) return error_;
  try {
    if (under_way_()) under_way_ = nullptr;
  } catch (Failure const& failure) {
    remember(failure.what());
    error_ = failure.code();
    under_way_ = nullptr;
  }
  if (error_ != ncclSuccess) return error_;
  return under_way_ ? ncclInProgress : ncclSuccess;
}

void Communicator::abort() {
  is_aborted_ = true;
  under_way_ = nullptr;
}

void Communicator::fail_all(std::string const& why) {
  auto const text = std::as_bytes(std::span{why.data(), why.size()});
  board_->post(key(0, verdict), text, everybody);
  throw Failure{ncclInvalidUsage, why};
}

void Communicator::require_no_failure() const {
  auto const note = board_->read(key(0, verdict));
  if (!note) return;
  throw Failure{ncclInvalidUsage, {reinterpret_cast<char const*>(note->data()), note->size()}};
}

std::uint64_t Communicator::call(Call const& own) {
  board_->post(key(place_.rank, calls, calls_), note_of(own),
               static_cast<unsigned>(place_.size - 1));
  return calls_++;
}

bool Communicator::all_have_called(Call const& own, std::uint64_t number) {
  require_no_failure();
  bool have_all = true;
  for (int other = 0; other < place_.size; ++other) {
    if (other == place_.rank) continue;
    auto const note = board_->read(key(other, calls, number));
    if (!note) {
      have_all = false;
      continue;
    }
    auto const theirs = value_of<Call>(*note);
    if (theirs == own) continue;
    std::array<std::pair<int, Call>, 2> both{{{place_.rank, own}, {other, theirs}}};
    if (other < place_.rank) std::swap(both[0], both[1]);
    fail_all("call " + std::to_string(number) + " of a communicator: " + rank_text(both[0].first) +
             " has " + to_text(both[0].second) + ", " + rank_text(both[1].first) + " has " +
             to_text(both[1].second));
  }
  return have_all;
}

void Communicator::take_calls(std::uint64_t number) {
  for (int other = 0; other < place_.size; ++other) {
    if (other != place_.rank) board_->take(key(other, calls, number));
  }
}

void Communicator::begin_arrival() {
  Arrival const own{getpid(), place_.device, place_.size};
  if (!board_->post(key(place_.rank, arrival), note_of(own), everybody)) {
    throw Failure{ncclInvalidUsage, rank_text(place_.rank) + " has come twice"};
  }
  under_way_ = [this, own] {
    for (int other = 0; other < place_.size; ++other) {
      auto const note = board_->read(key(other, arrival));
      if (!note) return false;
      auto const theirs = value_of<Arrival>(*note);
      bool const is_same = theirs.process == own.process && theirs.device == own.device;
      if (theirs.size != own.size || (other != place_.rank && is_same)) {
        throw Failure{ncclInvalidUsage, rank_text(place_.rank) + " and " + rank_text(other) +
                                            " have the same device, or another number of ranks"};
      }
    }
    return true;
  };
}

void Communicator::begin_split(int color, int key_of_rank, bool is_blocking, MakeChild made) {
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) {
    throw Failure{ncclInvalidArgument, "a color below 0"};
  }
  Call const own{.kind = Call::Kind::split};
  std::uint64_t const now = call(own);
  Choice const choice{color, key_of_rank};
  board_->post(data_key(place_.rank, now), note_of(choice), static_cast<unsigned>(place_.size));
  under_way_ = [this, own, now, color, is_blocking, made = std::move(made)] {
    if (!all_have_called(own, now)) return false;
    std::vector<std::tuple<int, int>> members;  // key, rank
    for (int rank = 0; rank < place_.size; ++rank) {
      auto const note = board_->read(data_key(rank, now));
      if (!note) return false;
      auto const theirs = value_of<Choice>(*note);
      if (theirs.color == color) members.emplace_back(theirs.key, rank);
    }
    for (int rank = 0; rank < place_.size; ++rank) board_->take(data_key(rank, now));
    take_calls(now);
    if (color == NCCL_SPLIT_NOCOLOR) return true;
    std::sort(members.begin(), members.end());
    int new_rank = 0;
    while (std::get<1>(members[static_cast<std::size_t>(new_rank)]) != place_.rank) ++new_rank;
    // All members compute the same: a name that no other communicator has.
    emulation::RandomOrder mix{place_.id ^ (now << 20U) ^ static_cast<std::uint64_t>(color)};
    made({.id = mix.next(),
          .rank = new_rank,
          .size = static_cast<int>(members.size()),
          .device = place_.device,
          .is_blocking = is_blocking});
    return true;
  };
}

void Communicator::begin_finalize() {
  Call const own{.kind = Call::Kind::finalize};
  std::uint64_t const now = call(own);
  under_way_ = [this, own, now] {
    if (!all_have_called(own, now) || launches_under_way_ > 0) return false;
    take_calls(now);
    is_finalized_ = true;
    return true;
  };
}

void Communicator::number(Operation& operation) {
  auto const peer = static_cast<std::size_t>(operation.call.root);
  switch (operation.call.kind) {
    case Call::Kind::send:
      operation.number = sent_[peer]++;
      return;
    case Call::Kind::receive:
      operation.number = received_[peer]++;
      return;
    default:
      operation.number = call(operation.call);
  }
}

/// Whether it is the first of its kind, or to or from its peer: then all that it concerns have to
/// come before it is launched, as where NCCL connects them.
bool Communicator::connects(Operation const& operation) {
  Call const& own = operation.call;
  int const peer = own.is_message() ? own.root : 0;
  if (!connected_.emplace(own.kind, peer).second) return false;
  if (own.is_message()) {
    bool const is_send = own.kind == Call::Kind::send;
    board_->post(key(place_.rank, is_send ? sender : receiver, 0, peer), {}, 1);
  }
  return place_.size > 1;
}

bool Communicator::is_connected(Operation const& operation) {
  Call const& own = operation.call;
  if (!own.is_message()) return all_have_called(own, operation.number);
  require_no_failure();
  Channel const other_end = own.kind == Call::Kind::send ? receiver : sender;
  return board_->has(key(own.root, other_end, 0, place_.rank));
}

void Communicator::begin_launch(emulation::Device& device,
                                std::vector<Operation> operations,
                                CUstream_st& on) {
  std::vector<Operation> firsts;
  for (Operation& operation : operations) {
    number(operation);
    if (connects(operation)) firsts.push_back(operation);
  }
  if (firsts.empty()) return enqueue(device, std::move(operations), on);
  under_way_ = [this, &device, &on, firsts, operations = std::move(operations)] {
    bool const are_connected = std::all_of(
        firsts.begin(), firsts.end(), [&](Operation const& first) { return is_connected(first); });
    if (are_connected) enqueue(device, operations, on);
    return are_connected;
  };
}

void Communicator::enqueue(emulation::Device& device,
                           std::vector<Operation> operations,
                           CUstream_st& on) {
  auto const launch = std::make_shared<Launch>(shared_from_this(), device, std::move(operations));
  device.schedule.wait(on, last_);
  device.schedule.enqueue(on, 0, [launch] { launch->begin(); });
  last_ =
      device.schedule.enqueue_arrival(on, launch->seconds(), [launch] { return launch->go_on(); });
  ++launches_under_way_;
}

namespace {

/// Those of the process that are neither destroyed nor aborted.
std::map<ncclComm_t, std::shared_ptr<ncclComm>>& comms() {
  static std::map<ncclComm_t, std::shared_ptr<ncclComm>> all;
  return all;
}

/// NCCL's, too, is the process's.
struct LastError {
  std::mutex mutex;
  std::string text;
};
LastError& last_error() {
  static LastError error;
  return error;
}

}  // namespace

ncclComm& find(ncclComm_t handle) {
  auto const found = comms().find(handle);
  if (found == comms().end()) {
    throw Failure{ncclInvalidArgument, "no communicator, or it is destroyed or aborted"};
  }
  return *found->second;
}

ncclComm_t keep(std::shared_ptr<ncclComm> comm) {
  ncclComm_t const handle = comm.get();
  comms().emplace(handle, std::move(comm));
  return handle;
}

void forget(ncclComm_t handle) { comms().erase(handle); }

ncclResult_t await(emulation::Device& device, ncclComm& comm) {
  while (comm.place().is_blocking && comm.state() == ncclInProgress) device.pause();
  return comm.state();
}

void remember(std::string const& why) {
  std::scoped_lock const lock{last_error().mutex};
  last_error().text = why;
}

}  // namespace stagecraft::nccl_emulation

using namespace stagecraft::nccl_emulation;

char const* ncclGetLastError(ncclComm_t /*comm*/) {
  thread_local std::string text;
  std::scoped_lock const lock{last_error().mutex};
  text = last_error().text;
  return text.c_str();
}
