#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// What a rank of a pipeline issues if its data-parallel peers share the parameters of its stages.
/// A stage is here a virtual stage: the part of the model in a chunk.
struct LoweredAction {
  enum class Kind : std::uint8_t {
    compute,
    unshard,           ///< gathers all units of the stage; its first computation waits for that
    reshard,           ///< frees them
    reduce_gradients,  ///< reduces the stage's gradients of all microbatches
    wait_for_reduction,
    send_forward,
    receive_forward,
    send_backward,
    receive_backward,
    wait_for_send_forward,  ///< until the message of send_forward may be freed
    wait_for_send_backward,
  };
  Kind kind = Kind::compute;
  VirtualStageId stage{};
  MicrobatchId microbatch{};  ///< unused by unshard, reshard and reductions
  Pass pass = Pass::forward;  ///< compute only
  bool is_paired = false;     ///< compute only: it overlaps the action after it

  friend bool operator==(LoweredAction const&, LoweredAction const&) = default;
};

/// PyTorch's parameters of pipeline schedules.
struct LoweringPolicy {
  int max_active_stages = 3;  ///< stages of a rank whose parameters it may hold
  /// Whether rank r gathers only the next r + 2 stages ahead, at most max_active_stages; else as
  /// many as it may hold.
  bool looks_ahead_by_rank = false;
  /// Whether a reduction is waited for only before the next one, or at the end.
  bool defers_reduction_wait = false;
};

/// A pipeline's order with all that its ranks communicate, one list for each stage of the pipeline.
struct LoweredOrder {
  std::vector<std::vector<LoweredAction>> ranks;
  std::vector<int> unshards;        ///< gathers of stages, by rank
  std::vector<int> most_unsharded;  ///< stages held at once, by rank
};

/// \throws ScheduleError  if the order recomputes, has two copies of the model, or has a pair of
///         more stages than the policy lets a rank hold.
/// Source: PyTorch 2.15, torch/distributed/pipelining/schedules.py, _add_unshard_reshard,
/// _add_reduce_grad, _add_send_recv, _add_wait_send.
LoweredOrder lowered(PipelineOrder const& order, LoweringPolicy const& policy);

/// The actions in PyTorch's words: "0UNSHARD 0F0 0SEND_F0 (1F2;0B0)OVERLAP_F_B".
std::string lowered_text(std::vector<LoweredAction> const& actions);

}  // namespace stagecraft
