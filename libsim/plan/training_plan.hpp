#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libsim/model/block_program.hpp"
#include "libsim/plan/issue_entry.hpp"
#include "libsim/plan/pipeline_schedule.hpp"
#include "libsim/plan/placement.hpp"
#include "libsim/plan/plan_groups.hpp"
#include "libsim/plan/stage_program.hpp"
#include "libsim/plan/training_config.hpp"

namespace stagecraft {

class VirtualOrder;

/// What one chunk of a stage computes for a microbatch: blocks in model order; backward runs them
/// in reverse.
struct ChunkProgram {
  std::int32_t stage = 0;
  std::int32_t chunk = 0;
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  std::vector<std::int32_t> blocks;  ///< into TrainingPlan::blocks
  bool has_embedding = false;        ///< its input is made here, not received
  bool has_head = false;             ///< it ends in the loss and sends no activation
};

/// The programs of a chunk of a stage.
struct StageChunk {
  static constexpr std::int32_t none = -1;
  std::int32_t program = 0;  ///< into TrainingPlan::chunks
  /// The program of microbatches whose activations are all stored; `none` if there is no window of
  /// stored microbatches.
  std::int32_t stored_program = none;
};

/// What a rank of one stage does in an iteration, in one issue order. All tensor and data ranks of
/// a stage do the same.
struct StagePlan {
  std::int32_t stage = 0;
  std::vector<StageChunk> chunks;  ///< by chunk
  std::vector<Task> tasks;         ///< everything it can be asked to do
  StageProgram program;            ///< what it does, in issue order
  std::vector<Op> step_ops;        ///< gradient reduction and optimizer
  std::int64_t parameters = 0;     ///< trained elements held, padding and replicas included
  Bytes parameter_bytes;
  Bytes gradient_bytes;
  Bytes optimizer_bytes;  ///< of this rank's shard, where it is sharded
};

/// One iteration of training, as every rank performs it. The simulator prices it, the executor runs
/// it.
struct TrainingPlan {
  TrainingConfig config;
  BlockShape shape;
  RankGroups groups;
  GroupRoles roles;
  std::vector<BlockProgram> blocks;  ///< distinct ones
  std::vector<ChunkProgram> chunks;
  Placement placement;
  std::vector<StagePlan> stages;  ///< by stage
  std::int32_t channels = 0;      ///< channel numbers of the transfers are in [0, channels)
  std::int32_t messages = 0;      ///< message numbers are in [0, messages)
  std::int32_t most_queued = 0;   ///< messages of a channel that are sent and not yet received

  /// Ranks that hold the same parameters and sum their gradients.
  int replicas() const { return groups.members(roles.gradients); }
  /// Whole hidden state of one rank between two virtual stages.
  Bytes message_bytes() const;
  /// What of it travels: all, or 1/t where messages are scattered.
  Bytes sent_bytes() const;
  /// Whether a sender ships 1/t of the message and the receivers gather it.
  bool scatters_messages() const;
};

/// What a plan consists of before there are programs: configuration, sizes of a rank's share of one
/// microbatch, groups.
TrainingPlan make_outline(TrainingConfig const& config);

/// The policy of a stage.
RecomputePolicy const& policy_of(TrainingConfig const& config, int stage);

/// Lays out an iteration. Pre: `config` was checked by its reader.
/// \throws std::invalid_argument  for an illegal schedule shape.
TrainingPlan make_plan(TrainingConfig const& config);

/// Gives a stage its tasks and its program. `schedule` is of the plan.
/// Pre: `stage` is fresh from make_programs().
void lay_out_stage(TrainingPlan const& plan, PipelineSchedule const& schedule, StagePlan& stage);

/// The blocks of a forward or backward task (into TrainingPlan::blocks), in the order in which they
/// run.
std::vector<std::int32_t> blocks_in_order(TrainingPlan const& plan, Task const& task);

/// Canonical text of a plan: everything that decides what is computed, in which order and in which
/// buffers; nothing of system, prices, clock, backend or version.
std::string canonical_text(TrainingPlan const& plan);

/// SHA-256 of the canonical text, 64 hexadecimal digits.
std::string fingerprint(TrainingPlan const& plan);

}  // namespace stagecraft
