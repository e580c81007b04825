#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "libsim/plan/state_buffers.hpp"
#include "libsim/plan/step_op.hpp"
#include "libsim/plan/units/unit_types.hpp"
#include "libsim/program/block_program.hpp"
#include "libsim/program/forced_routing.hpp"
#include "libsim/ranks/plan_groups.hpp"
#include "libsim/schedule/issue_entry.hpp"
#include "libsim/schedule/orders/placement.hpp"
#include "libsim/schedule/stage_program.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// The computation of a chunk of a stage for a microbatch: blocks in model order, which backward
/// runs in reverse.
struct ChunkProgram {
  StageId stage{};
  ChunkId chunk{};
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  std::vector<std::int32_t> blocks;  ///< indices into Programs::blocks
  bool has_embedding = false;        ///< it begins with the embedding and receives no activation
  bool has_head = false;             ///< it ends with the loss and sends no activation
  bool keeps_output = false;         ///< the next chunk of the model is on the same stage
  bool has_recompute_pass = false;   ///< a recompute pass runs between forward and backward
  Bytes offloaded{};  ///< what the host has of a microbatch between its forward and its backward
};

/// The programs of ranks.
struct Programs {
  std::vector<BlockProgram> blocks;  ///< distinct blocks
  std::vector<ChunkProgram> chunks;
  /// Rows that blocks refer to; owned here.
  std::vector<std::shared_ptr<GroupRows const>> expert_rows;
};

/// The programs of a chunk of a stage.
struct StageChunk {
  static constexpr std::int32_t none = -1;
  std::int32_t program = 0;  ///< index into Programs::chunks
  /// The program of stored microbatches, into Programs::chunks; `none` if there is no window of
  /// stored microbatches.
  std::int32_t stored_program = none;
  /// The program of microbatches that are recomputed ahead of their backward, by a task of its own;
  /// `none` if the schedule has no such tasks.
  std::int32_t early_program = none;
};

/// A range of a rank's flat order of parameters that is cut into shards of equal size, the last
/// ones shorter.
struct ShardedRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  int shards = 1;        ///< one: every rank that holds the parameters keeps all of their state
  GroupId holders{};     ///< the ranks that hold the same parameters; member r keeps the r-th shard
  std::int64_t row = 1;  ///< elements that stay together

  std::int64_t shard() const { return shard_of(count, shards, row); }
};

/// What a rank of one stage does in an iteration. All tensor and data ranks of a stage do the same,
/// except that their experts may compute different numbers of rows.
struct StagePlan {
  StageId stage{};
  IdVector<ChunkId, StageChunk> chunks;
  std::vector<Task> tasks;       ///< the distinct tasks that the program runs
  StageProgram program;          ///< the issue order
  std::vector<StepOp> step_ops;  ///< gradient reduction and optimizer
  std::int64_t parameters = 0;   ///< trained elements per rank, padding and replicas included
  /// All parameters, as ranges whose optimizer state is cut in the same way.
  std::vector<ShardedRun> sharded_runs;
  int shards = 1;                         ///< largest number of shards of a run
  std::int64_t quantised_parameters = 0;  ///< those of which it keeps quantised copies
  /// The buffers that the rank keeps from one iteration to the next.
  std::vector<StateBuffer> state;
  Bytes offloaded{};  ///< what its layers keep in the memory of the host at most

  /// The first buffer of one of step_tensors. \throws std::out_of_range  if the rank keeps none.
  StateBuffer const& state_of(TensorId tensor) const;
  /// The sum of `state` in a category, of what is on the device.
  Bytes state_bytes(Category category) const;
  /// What a rank has in the memory of its host.
  Bytes host_bytes() const;
};

/// One iteration of training, as every rank performs it: all decisions that are made before
/// anything runs. The simulator replays its tasks with durations; the executor runs them with real
/// tensors.
///
/// make_plan() makes it from a TrainingConfig: rank groups (plan_groups.hpp), block programs
/// (plan_programs.hpp), and a schedule for each stage (schedule_layout.hpp). Memory is summed from
/// its buffer events (buffer_events.hpp).
struct TrainingPlan {
  TrainingConfig config;
  BlockShape shape;  ///< without room for uneven rows, which depends on the layer
  std::shared_ptr<ForcedRouting const> forced;  ///< null if the configuration forces no counts
  RankGroups groups;
  GroupRoles roles;
  /// The programs of every rank. If ranks differ, each layer and microbatch has room for the rows
  /// of the rank with the most, because the others of its expert group wait for that one.
  Programs programs;
  bool has_split_backward = false;  ///< whether some backward is split in two passes
  Placement placement;
  IdVector<StageId, StagePlan> stages;
  /// The distance in `chunks` from the programs of a replica's microbatch k to those of its
  /// microbatch k + 1; 0 if all microbatches have the same programs.
  std::int32_t microbatch_stride = 0;
  std::int32_t channels = 0;     ///< channel numbers of the transfers are in [0, channels)
  std::int32_t messages = 0;     ///< message numbers are in [0, messages)
  std::int32_t most_queued = 0;  ///< most messages of a channel that are sent and not yet received

  /// Whether the ranks of a stage may allocate differently, because their experts compute different
  /// numbers of rows. A rank's RankPrograms have what it allocates.
  bool differs_by_rank() const { return forced != nullptr; }
  /// The number of ranks that hold the same dense parameters and sum their gradients.
  int replicas() const { return groups.members(roles.gradients); }
  /// The groups over which gradients are summed, first the group of dense parameters.
  std::vector<GroupId> gradient_groups() const;
  /// The ranks that hold the same parameter.
  GroupId holders_of(Parameter const& parameter) const;
  /// The size of a rank's hidden state between two virtual stages.
  Bytes message_bytes() const;
  /// The part of a message that a rank sends: all of it, or 1/t if messages are scattered.
  Bytes sent_bytes() const;
  /// Whether each tensor rank sends 1/t of a message, which the receivers then gather.
  bool scatters_messages() const;
};

/// The policy of a stage.
RecomputePolicy const& policy_of(TrainingConfig const& config, StageId stage);

/// A block that a task runs.
struct TaskBlock {
  std::size_t block = 0;     ///< index into Programs::blocks
  std::size_t position = 0;  ///< position in its chunk
};

/// The blocks of a task in the order in which they run. Pre: the task is not one of the step.
std::vector<TaskBlock> blocks_in_order(Programs const& programs, Task const& task);

}  // namespace stagecraft
