#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/libexec/cuda_emulation/device.hpp"
#include "tests/libexec/nccl_emulation/board.hpp"
#include "tests/libexec/nccl_emulation/call.hpp"

namespace stagecraft::nccl_emulation {

/// A call of a group, with its buffers.
struct Operation {
  Call call;
  void const* source = nullptr;
  void* target = nullptr;
  std::uint64_t number =
      0;                 ///< of the communicator's collective calls, or of the messages this way
  bool is_over = false;  ///< as far as this rank is concerned
};

/// One rank's end of a communicator: what it has called, and what is under way on the host. Used
/// under the device's lock.
///
/// What is begun is over when state() says so, which looks: nothing else makes it go on, so that a
/// program that does not ask does not get what it did not wait for.
class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  struct Place {
    std::uint64_t id = 0;  ///< the same for all ranks of the communicator
    int rank = 0;
    int size = 1;
    int device = 0;
    bool is_blocking = true;
  };
  /// What the ranks of one color get.
  using MakeChild = std::function<void(Place const& place)>;

  Communicator(std::shared_ptr<Board> board, Place const& place);
  virtual ~Communicator() = default;
  Communicator(Communicator const&) = delete;
  Communicator(Communicator&&) = delete;
  Communicator& operator=(Communicator const&) = delete;
  Communicator& operator=(Communicator&&) = delete;

  Place const& place() const { return place_; }
  std::shared_ptr<Board> const& board() const { return board_; }

  /// \throws Failure  unless the last call is over and went well.
  void require_ready();
  /// The rest of the constructor, with all others. \throws Failure
  void begin_arrival();
  /// `made`: called when it is over, by the ranks that take part.
  void begin_split(int color, int key, bool is_blocking, MakeChild made);
  /// Over when all ranks have come and all work of this one is done.
  void begin_finalize();
  /// The calls of a group on one stream: they are in the stream when this is over, and run as one
  /// kernel, after the communicator's last.
  /// \throws Failure
  void begin_launch(emulation::Device& device, std::vector<Operation> operations, CUstream_st& on);

  /// ncclSuccess, ncclInProgress, or what went wrong.
  ncclResult_t state();
  void set_error(ncclResult_t error) { error_ = error; }
  bool is_finalized() const { return is_finalized_; }

  /// Work on streams ends as it can.
  void abort();
  bool is_aborted() const { return is_aborted_; }

  // What launches do, from their stream.

  /// Whether all ranks have called the same. \throws Failure  where one has called something else.
  bool all_have_called(Call const& own, std::uint64_t number);
  /// No more needed. Pre: all have called.
  void take_calls(std::uint64_t number);
  /// Tells all ranks. \throws Failure
  [[noreturn]] void fail_all(std::string const& why);
  /// \throws Failure  where a rank has told all.
  void require_no_failure() const;
  void launch_is_over() { --launches_under_way_; }

  BoardKey data_key(int rank, std::uint64_t number) const;
  BoardKey message_key(int from, int to, std::uint64_t number) const;

 private:
  enum Channel : std::uint32_t { arrival, calls, data, verdict, message, sender, receiver };

  BoardKey key(int rank, Channel channel, std::uint64_t number = 0, int peer = 0) const;
  std::uint64_t call(Call const& own);
  void number(Operation& operation);
  bool connects(Operation const& operation);
  bool is_connected(Operation const& operation);
  void enqueue(emulation::Device& device, std::vector<Operation> operations, CUstream_st& on);

  std::shared_ptr<Board> board_;
  Place place_;
  std::function<bool()> under_way_;  ///< whether it is over
  ncclResult_t error_ = ncclSuccess;
  bool is_aborted_ = false;
  bool is_finalized_ = false;
  std::uint64_t calls_ = 0;
  std::vector<std::uint64_t> sent_;      ///< messages, by peer
  std::vector<std::uint64_t> received_;  ///< likewise
  /// Kinds of calls, and peers of messages, that were called before.
  std::set<std::pair<Call::Kind, int>> connected_;
  std::shared_ptr<emulation::Completion> last_;
  int launches_under_way_ = 0;
};

}  // namespace stagecraft::nccl_emulation

/// What programs have a pointer to.
struct ncclComm : stagecraft::nccl_emulation::Communicator {
  using Communicator::Communicator;
  ncclComm_t* split_target = nullptr;  ///< of a split that is under way
};

namespace stagecraft::nccl_emulation {

/// The communicator of a handle that is neither destroyed nor aborted. The device's lock is held.
/// \throws Failure  if the handle names no such communicator.
ncclComm& find(ncclComm_t handle);
ncclComm_t keep(std::shared_ptr<ncclComm> comm);
/// Work on streams keeps the communicator alive.
void forget(ncclComm_t handle);

/// Runs the body of a function: turns what it throws into what the function returns.
template <typename Body>
ncclResult_t guarded(Body const& body) {
  return emulation::Device::get().configure([&](emulation::Device& device) {
    try {
      if (device.count < 1) throw Failure{ncclUnhandledCudaError, "no device is emulated"};
      return body(device);
    } catch (Failure const& failure) {
      remember(failure.what());
      return failure.code();
    } catch (emulation::Failure const& failure) {
      remember(failure.what());
      return ncclUnhandledCudaError;
    } catch (std::runtime_error const& failure) {
      remember(failure.what());
      return ncclSystemError;
    }
  });
}

/// What a call that has begun something returns. It waits for the end if communicators block.
ncclResult_t await(emulation::Device& device, ncclComm& comm);

/// What is made in no group. \throws Failure  within one of the calling thread.
void require_no_group(char const* call);

}  // namespace stagecraft::nccl_emulation
