#pragma once

#include <cstdint>
#include <string_view>

namespace stagecraft {

/// What an entry of a memory snapshot's trace says, as far as a replay needs it.
/// Source: PyTorch, torch/csrc/cuda/memory_snapshot.cpp.
struct SnapshotEntry {
  enum class Action : std::uint8_t {
    allocate,
    free_requested,
    free_completed,
    refused,    ///< a request that failed
    take,       ///< a segment of the device
    map,        ///< memory for a growing segment
    give_back,  ///< a segment, to the device
    unmap,
    other
  };
  Action action = Action::other;
  std::int64_t address = 0;
  std::int64_t size = 0;
  std::int64_t stream = 0;
  std::int32_t name = -1;  ///< of its innermost frame

  bool takes_memory() const { return action == Action::take || action == Action::map; }
  bool gives_back_memory() const { return action == Action::give_back || action == Action::unmap; }

  static Action action_named(std::string_view name) {
    if (name == "alloc") return Action::allocate;
    if (name == "free_requested" || name == "free") return Action::free_requested;
    if (name == "free_completed") return Action::free_completed;
    if (name == "oom") return Action::refused;
    if (name == "segment_alloc") return Action::take;
    if (name == "segment_map") return Action::map;
    if (name == "segment_free") return Action::give_back;
    if (name == "segment_unmap") return Action::unmap;
    return Action::other;
  }
};

}  // namespace stagecraft
