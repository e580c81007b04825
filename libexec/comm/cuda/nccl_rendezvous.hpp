#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace stagecraft {

/// How the ranks of a job get the id that rank 0 makes, with which NCCL's bootstrap connects them.
/// Exactly one member is set, or none for a job of one rank.
struct NcclRendezvous {
  /// HOST:PORT of rank 0, as in NCCL_COMM_ID. NCCL requires that this machine has an interface in
  /// the host's subnet.
  std::string address{};
  std::filesystem::path file{};  ///< in a folder that all machines share; see IdFile
  std::function<void(std::span<std::byte> id)> broadcast{};  ///< sends rank 0's bytes to all
};

}  // namespace stagecraft
