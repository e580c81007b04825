#pragma once

#include "libsim/hardware/sourced.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What holds an accelerator's memory beside the framework's allocator, per process. Section
/// `device` of a system.
struct DeviceUse {
  Sourced<Bytes> driver;   ///< of the memory, never given to a process
  Sourced<Bytes> context;  ///< CUDA context and the modules of all libraries
  /// Channels of a communicator's collectives: to its neighbours on the node, and over the network.
  Sourced<int> node_channels;
  Sourced<int> network_channels;
  /// Channels to each pipeline neighbour on another node; to one on the node they are
  /// node_channels.
  Sourced<int> message_channels;
  Sourced<Bytes> node_buffers;     ///< per channel, of all protocols, sent and received
  Sourced<Bytes> network_buffers;  ///< likewise
  /// Of in-switch reductions (NVLS), per member on the node, if these are more than two.
  Sourced<Bytes> multicast;

  friend bool operator==(DeviceUse const&, DeviceUse const&) = default;
};

}  // namespace stagecraft
