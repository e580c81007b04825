#pragma once

#include <list>
#include <map>
#include <utility>

#include "libexec/backends/cuda/cuda_streams.hpp"
#include "libexec/comm/communicator.hpp"
#include "libexec/comm/cuda/device_call.hpp"
#include "libsim/ranks/rank_groups.hpp"

namespace stagecraft {

/// Orders the calls of another communicator against the rank's compute stream by events. The host
/// does not wait for them.
///
/// If time is measured, spans are marks of the rank's timeline; with a virtual clock they are those
/// of the communicator inside.
class CudaCommunicator final : public Communicator {
 public:
  /// All arguments must outlive the object. `inside` records the events of each DeviceCall.
  CudaCommunicator(Communicator& inside,
                   RankGroups const& groups,
                   CudaStreams& streams,
                   bool is_virtual)
      : inside_{inside}, groups_{groups}, streams_{streams}, is_virtual_{is_virtual} {}

  Ticket start(Collective const& collective) override;
  TimeSpan finish(GroupId group, Ticket ticket) override;
  void post(Message const& message) override;
  TimeSpan wait(Message const& message) override;
  void barrier() override { inside_.barrier(); }
  void fail(std::exception_ptr const& error) override { inside_.fail(error); }

 private:
  /// Calls in flight, whose addresses `inside` knows. Those in host memory have no stream.
  using Calls = std::list<DeviceCall>;

  DeviceCall call_on(cudaStream_t stream);
  /// Makes the compute stream wait for a call, for which `inside` returned `time`, and forgets it.
  TimeSpan settle(Calls::iterator call, TimeSpan const& time);

  Communicator& inside_;
  RankGroups const& groups_;
  CudaStreams& streams_;
  bool is_virtual_;
  Calls calls_;
  std::map<std::pair<GroupId, Ticket>, Calls::iterator> collectives_;
  std::map<std::pair<Transfer::End, std::int32_t>, Calls::iterator> messages_;
};

}  // namespace stagecraft
