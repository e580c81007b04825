#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace stagecraft {

/// How the ranks of a job find each other: NCCL's own bootstrap does it, once all have the id that
/// rank 0 makes. One of these is given, or none for a job of one rank.
struct NcclRendezvous {
  /// HOST:PORT of rank 0, which NCCL takes from NCCL_COMM_ID. This machine must have an interface
  /// in the host's subnet, as NCCL wants it.
  std::string address{};
  std::filesystem::path file{};  ///< in a folder of all machines; see IdFile
  std::function<void(std::span<std::byte> id)> broadcast{};  ///< gives rank 0's bytes to all
};

}  // namespace stagecraft
