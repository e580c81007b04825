#include "libsim/engine/average_chunk.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "libsim/plan/stage_tasks.hpp"

namespace stagecraft {

namespace {

Task task_of(TrainingPlan const& plan, StagePlan const& stage, Pass pass, ChunkId chunk) {
  return whole_task(plan, stage, {pass, MicrobatchId{0}, chunk}, TaskVariant::policy);
}

}  // namespace

AverageChunk::AverageChunk(TrainingPlan const& plan, System const& system)
    : plan_{plan},
      cost_{system, plan},
      blocks_{profile_blocks(plan.programs, cost_)},
      memories_{plan, plan.programs} {}

std::vector<ChunkCosts> AverageChunk::stage_costs() const {
  double const transfer = longest_message();
  std::vector<ChunkCosts> stages;
  for (VirtualStageId const v : plan_.placement.virtual_stage_ids()) {
    ChunkPlace const place = plan_.placement.place(v);
    StagePlan const& stage = plan_.stages[place.stage];
    stages.push_back({.forward = seconds(stage, Pass::forward, place.chunk),
                      .backward = seconds(stage, Pass::backward, place.chunk),
                      .transfer = transfer,
                      .input_gradient = seconds(stage, Pass::input_gradient, place.chunk),
                      .weight_gradient = seconds(stage, Pass::weight_gradient, place.chunk)});
  }
  return stages;
}

ChunkCosts AverageChunk::costs() const {
  std::vector<ChunkCosts> const stages = stage_costs();
  auto const mean = [&](auto cost) {
    double sum = 0;
    for (ChunkCosts const& costs : stages) sum += costs.*cost;
    return sum / static_cast<double>(stages.size());
  };
  return {.forward = mean(&ChunkCosts::forward),
          .backward = mean(&ChunkCosts::backward),
          .transfer = longest_message(),
          .input_gradient = mean(&ChunkCosts::input_gradient),
          .weight_gradient = mean(&ChunkCosts::weight_gradient)};
}

MemoryChanges AverageChunk::memory() {
  MemoryChanges memory;
  memory.weight_gradient = std::min(0.0, mean_bytes(Pass::weight_gradient));
  memory.forward = std::max(mean_bytes(Pass::forward), -memory.weight_gradient);
  memory.input_gradient = -memory.forward - memory.weight_gradient;
  return memory;
}

double AverageChunk::seconds(StagePlan const& stage, Pass pass, ChunkId chunk) const {
  Task const task = task_of(plan_, stage, pass, chunk);
  return to_seconds(profile_task(plan_.programs, stage, task, blocks_, cost_).duration);
}

double AverageChunk::longest_message() const {
  double longest = 0;
  for (VirtualStageId const v : plan_.placement.virtual_stage_ids()) {
    if (plan_.placement.is_first(v)) continue;
    StageId const from = plan_.placement.place(previous(v)).stage;
    StageId const to = plan_.placement.place(v).stage;
    if (from == to) continue;
    MessageCost const message = cost_.message_cost(from, to);
    longest = std::max(longest, to_seconds(message.latency + message.occupancy));
  }
  return longest;
}

double AverageChunk::mean_bytes(Pass pass) {
  double sum = 0;
  double count = 0;
  for (StagePlan const& stage : plan_.stages) {
    for (ChunkId const chunk : stage.chunks.ids()) {
      sum += static_cast<double>(memories_.of(task_of(plan_, stage, pass, chunk)).net_sum);
      ++count;
    }
  }
  return sum / count;
}

}  // namespace stagecraft
