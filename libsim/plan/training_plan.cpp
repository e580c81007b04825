#include "libsim/plan/training_plan.hpp"

#include <algorithm>
#include <utility>

#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_exchanges.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/plan/step_program.hpp"

namespace stagecraft {
namespace {

/// Takes a stage's order as the tasks and steps of its rank.
class StageSink {
 public:
  StageSink(TrainingPlan const& plan, ScheduleShape const& shape, StagePlan& rank)
      : rank_{rank}, tasks_{plan, shape, rank} {
    auto const runs =
        2 * static_cast<std::size_t>(shape.microbatches) * static_cast<std::size_t>(shape.chunks);
    constexpr std::size_t around = 32;       // begin and end of the iteration
    rank_.steps.reserve(3 * runs + around);  // a computation, a post and a wait each
    rank_.transfers.reserve(2 * runs);
  }

  void run(ChunkRun const& run) {
    std::int32_t task = 0;
    if (run.kind == ChunkRun::Kind::forward) {
      task = tasks_.forward(run);
    } else if (tasks_.starts_reduction(run)) {
      tasks_.append_reduced_backward(run);
      return;
    } else {
      task = tasks_.backward(run);
    }
    rank_.steps.push_back(
        {.kind = IssueEntry::Kind::run, .task = task, .microbatch = run.microbatch});
  }
  void transfer(Transfer const& transfer, int /*row*/) { rank_.transfers.push_back(transfer); }
  void post(std::int32_t first, std::int32_t count) {
    rank_.steps.push_back(
        {.kind = IssueEntry::Kind::post, .microbatch = -1, .first = first, .count = count});
  }
  void wait(std::int32_t first, std::int32_t count) {
    rank_.steps.push_back(
        {.kind = IssueEntry::Kind::wait, .microbatch = -1, .first = first, .count = count});
  }

  void begin_stretch() {}
  int repeat(int /*times*/) { return 1; }

 private:
  StagePlan& rank_;
  StageTasks tasks_;
};

}  // namespace

Bytes TrainingPlan::message_bytes() const {
  return Bytes{shape.local_sequence() * shape.micro * shape.model.hidden *
               element_size(activation_type(shape.model.precision))};
}

Bytes TrainingPlan::sent_bytes() const {
  return scatters_messages() ? Bytes{message_bytes().count() / shape.tensor} : message_bytes();
}

bool TrainingPlan::scatters_messages() const {
  return config.schedule.scatter_gather && !shape.sequence_parallel && shape.tensor > 1;
}

TrainingPlan make_outline(TrainingConfig const& config) {
  TrainingPlan plan;
  plan.config = config;
  auto [groups, roles] = make_groups(config);
  plan.groups = std::move(groups);
  plan.roles = roles;
  plan.shape = {.model = config.model,
                .tensor = config.parallel.tensor,
                .sequence_parallel = config.parallel.sequence && config.parallel.tensor > 1,
                .micro = config.batch.micro,
                .tensor_group = roles.tensor};
  return plan;
}

RecomputePolicy const& policy_of(TrainingConfig const& config, int stage) {
  return config.recompute.size() == 1 ? config.recompute.front()
                                      : config.recompute[static_cast<std::size_t>(stage)];
}

std::vector<std::int32_t> blocks_in_order(TrainingPlan const& plan, Task const& task) {
  std::vector<std::int32_t> const& all = plan.chunks[static_cast<std::size_t>(task.program)].blocks;
  auto const first = all.begin() + task.first_block;
  std::vector<std::int32_t> blocks(first, first + task.block_count);
  if (task.kind == Task::Kind::backward) std::reverse(blocks.begin(), blocks.end());
  return blocks;
}

void lay_out_stage(TrainingPlan const& plan,
                   ScheduleShape const& shape,
                   VirtualOrder const& order,
                   StagePlan& stage) {
  StageSink sink{plan, shape, stage};
  append_begin_of_step(stage, plan);
  write_stage(shape, order, stage.stage, sink);
  append_end_of_step(stage, plan);
}

TrainingPlan make_plan(TrainingConfig const& config) {
  TrainingPlan plan = make_programs(config);
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  VirtualOrder const order{shape};
  plan.messages = message_count(shape);
  for (StagePlan& stage : plan.stages) lay_out_stage(plan, shape, order, stage);
  return plan;
}

}  // namespace stagecraft
