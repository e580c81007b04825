#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "libsim/plan/training_config.hpp"

namespace stagecraft {

/// The shape of a pipeline schedule, without what its chunks compute.
struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 1;        ///< p
  int microbatches = 1;  ///< n, of one replica in one iteration
  int chunks = 1;        ///< m of the paper: chunks a stage; 1 unless interleaved
  int group = 0;         ///< interleaved: microbatches a group; 0 means p
  P2p p2p = P2p::blocking;

  friend bool operator==(ScheduleShape const&, ScheduleShape const&) = default;
};

/// A shape, or costs, that no schedule has. The message names what was found and what is accepted.
class ScheduleError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// One message between neighbouring virtual stages, as one of its two ends sees it. Virtual stage
/// of (stage r, chunk c) is c * p + r; an activation goes from virtual stage v to v + 1, a gradient
/// from v to v - 1. Two stages exchange the messages of one payload in the same order at both ends.
struct Transfer {
  enum class Payload : std::uint8_t { activation, gradient };
  enum class End : std::uint8_t { send, receive };
  Payload payload = Payload::activation;
  End end = End::send;
  std::int32_t peer = 0;  ///< stage at the other end
  std::int32_t microbatch = 0;
  std::int32_t chunk = 0;  ///< chunk of this end's stage that made it (send) or reads it (receive)
  std::int32_t message = 0;  ///< the same at both ends; dense from 0, unique in the iteration

  friend bool operator==(Transfer const&, Transfer const&) = default;
};

/// One entry of a stage's issue order.
struct ScheduleStep {
  enum class Kind : std::uint8_t {
    forward,   ///< of (microbatch, chunk)
    backward,  ///< of (microbatch, chunk)
    post,      ///< start transfers [first, first + count) of the stage together
    wait,      ///< the stage's computation waits until transfers [first, first + count) are over
  };
  Kind kind = Kind::forward;
  std::int32_t chunk = 0;
  std::int32_t microbatch = 0;
  std::int32_t first = 0;
  std::int32_t count = 0;
};

/// What one stage does in an iteration, in issue order. A blocking exchange is a post directly
/// followed by the wait for the same transfers. Every transfer is posted once and waited for once.
struct StageSchedule {
  std::vector<ScheduleStep> steps;
  std::vector<Transfer> transfers;
};

/// The schedule of every stage, with its messages.
struct PipelineSchedule {
  ScheduleShape shape;  ///< as asked for, with the group filled in
  std::vector<StageSchedule> stages;
  int messages = 0;  ///< message numbers are in [0, messages)
};

/// Most forward computations (p * n * m) in a schedule: beyond it the steps alone take gigabytes.
inline constexpr std::int64_t max_scheduled_forwards = 16'000'000;

/// Whether the interleaved schedule takes `microbatches` in groups of `group` on so many stages:
/// stages <= group <= microbatches, and the last group is full or of at least `stages`.
/// Source: microbatch_group_size_per_vp_stage of Megatron-LM, core/pipeline_parallel/schedules.py.
constexpr bool is_group(std::int64_t group, std::int64_t microbatches, std::int64_t stages) {
  return group >= stages && group <= microbatches &&
         (microbatches % group == 0 || microbatches % group >= stages);
}

/// The groups that it takes, the smallest first: `8, 12, 16, ...`.
/// Pre: 1 <= stages <= microbatches.
std::string accepted_groups(std::int64_t microbatches, std::int64_t stages);

/// The shape with its group filled in.
/// \throws ScheduleError  when no schedule has it. Accepted: p, n, m from 1; interleaved: p >= 2,
///         p <= group <= n, and n mod group 0 or >= p; others: m = 1 and no group.
ScheduleShape checked_shape(ScheduleShape shape);

/// Lays out GPipe (backward in the order of the forward), 1F1B or interleaved 1F1B, as Megatron-LM
/// issues them.
///
/// Blocking p2p follows Megatron's joint calls (forward and backward messages of a steady step in
/// one exchange); GPipe, which Megatron lacks, exchanges like 1F1B with every forward in the
/// warm-up. Overlapped p2p sends right after the producer, receives one computation ahead of the
/// consumer and relies on buffered sends: see append_overlapped_steps() in stage_exchanges.hpp.
/// Interleaved with one chunk is the interleaved schedule at m = 1, with its 2(p-r-1) warm-up
/// forwards; Megatron's command line turns that case into plain 1F1B.
/// \throws ScheduleError  where checked_shape() does.
/// Source: Megatron-LM core/pipeline_parallel/schedules.py; Narayanan et al. 2021,
/// arXiv:2104.04473, section 2.2; Huang et al. 2019, arXiv:1811.06965 (GPipe).
PipelineSchedule make_pipeline_schedule(ScheduleShape const& shape);

}  // namespace stagecraft
