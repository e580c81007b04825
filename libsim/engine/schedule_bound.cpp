#include "libsim/engine/schedule_bound.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "libsim/engine/outside_memory.hpp"
#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/engine/player/task_profile.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/memory/memory_moves.hpp"
#include "libsim/memory/message_buffers.hpp"
#include "libsim/memory/stage_memory.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/schedule/orders/makespan_bound.hpp"

namespace stagecraft {
namespace {

/// The time of all recompute of an iteration, by virtual stage.
std::vector<SimTime> recompute_times(CostedPlan const& costed) {
  TrainingPlan const& plan = costed.plan();
  std::vector<SimTime> times(static_cast<std::size_t>(plan.placement.virtual_stages()));
  for (StagePlan const& stage : plan.stages) {
    visit_entries(stage.program, [&](IssueEntry const& entry, std::int32_t /*advance*/) {
      if (entry.kind != IssueEntry::Kind::run) return;
      auto const index = static_cast<std::size_t>(entry.task);
      if (stage.tasks[index].kind == Task::Kind::step) return;
      VirtualStageId const v =
          plan.placement.virtual_stage({stage.stage, stage.tasks[index].chunk});
      times[v.index()] += costed.tasks(stage.stage.index())[index].shares.recompute;
    });
  }
  return times;
}

/// The shortest time from the post of a message to its arrival, over all neighbours.
SimTime shortest_message(TrainingPlan const& plan, CostModel const& cost) {
  std::optional<SimTime> shortest;
  for (VirtualStageId const v : plan.placement.virtual_stage_ids()) {
    if (plan.placement.is_first(v)) continue;
    StageId const here = plan.placement.place(v).stage;
    StageId const before = plan.placement.place(previous(v)).stage;
    if (here == before) continue;
    for (auto const& [from, to] : {std::pair{before, here}, {here, before}}) {
      MessageCost const message = cost.message_cost(from, to);
      SimTime const time = message.latency + message.occupancy;
      shortest = shortest ? std::min(*shortest, time) : time;
    }
  }
  return shortest.value_or(SimTime{0});
}

/// The times of the passes of each virtual stage. Recompute is the average over all microbatches.
StageTicks pass_times(CostedPlan const& costed) {
  TrainingPlan const& plan = costed.plan();
  TrainingConfig without_windows = plan.config;
  for (RecomputePolicy& policy : without_windows.recompute) policy.store_microbatches = {};
  TrainingPlan const split = make_programs(without_windows, plan.placement, true);
  CostModel const cost{costed.system(), split};
  std::vector<BlockProfile> const blocks = profile_blocks(split.programs, cost);
  std::vector<SimTime> const recompute = recompute_times(costed);
  SimTime const transfer = shortest_message(plan, costed.cost());
  std::vector<SplitTicks> times;
  for (VirtualStageId const v : split.placement.virtual_stage_ids()) {
    ChunkPlace const place = split.placement.place(v);
    StagePlan const& stage = split.stages[place.stage];
    auto const time_of = [&](Pass pass) {
      Task const task =
          whole_task(split, stage, {pass, MicrobatchId{0}, place.chunk}, TaskVariant::policy);
      TaskProfile const profile = profile_task(split.programs, stage, task, blocks, cost);
      return profile.duration - profile.shares.recompute;
    };
    SplitTicks& ticks = times.emplace_back();
    ticks.forward = time_of(Pass::forward);
    ticks.input_gradient = time_of(Pass::input_gradient);
    ticks.weight_gradient = time_of(Pass::weight_gradient);
    ticks.transfer = transfer;
    ticks.joint = std::max(SimTime{0},
                           ticks.input_gradient + ticks.weight_gradient - time_of(Pass::backward));
    ticks.recompute = recompute[v.index()] / microbatches(plan.config);
  }
  return StageTicks{std::move(times)};
}

/// The time of a stage's step beside its passes. If gradients are reduced while backwards run, it
/// is the compute stream's part after the last backward; the rest may be hidden by passes.
SimTime step_time(CostedPlan const& costed, StagePlan const& stage) {
  bool const overlaps = overlaps_gradients(costed.plan().config);
  SimTime time{0};
  visit_entries(stage.program, [&](IssueEntry const& entry, std::int32_t /*advance*/) {
    if (entry.kind != IssueEntry::Kind::run) return;
    auto const index = static_cast<std::size_t>(entry.task);
    Task const& task = stage.tasks[index];
    if (task.kind == Task::Kind::step) {
      if (overlaps && task.stream != Stream::compute) return;
      time += costed.tasks(stage.stage.index())[index].duration;
    } else if (overlaps) {
      time = SimTime{0};
    }
  });
  return time;
}

SimTime shortest_step(CostedPlan const& costed) {
  SimTime shortest = SimTime::max();
  for (StagePlan const& stage : costed.plan().stages) {
    shortest = std::min(shortest, step_time(costed, stage));
  }
  return shortest;
}

/// The bytes that a microbatch holds on a virtual stage. From its forward on: what the forward
/// allocates and does not release, with the message that it has received and without the one that
/// it sends. From its input gradient on: what that leaves of it, never more. A chunk may run
/// several programs; the one that holds least counts.
HeldMemory held_memory(TrainingPlan const& plan, MemoryMoves& memories, VirtualStageId v) {
  ChunkPlace const place = plan.placement.place(v);
  StagePlan const& stage = plan.stages[place.stage];
  StageChunk const& chunk = stage.chunks[place.chunk];
  std::int64_t const message = message_buffer_bytes(plan, MessageBuffer::whole).count();
  std::int64_t const received = plan.placement.is_first(v) ? 0 : message;  // by the forward
  std::int64_t const sent = v == plan.placement.last() ? 0 : message;
  std::int64_t in_flight = std::numeric_limits<std::int64_t>::max();
  std::int64_t for_weights = in_flight;
  for (TaskVariant const variant : {TaskVariant::policy, TaskVariant::stored, TaskVariant::early}) {
    bool const is_there =
        variant == TaskVariant::policy ||
        (variant == TaskVariant::stored ? chunk.stored_program : chunk.early_program) !=
            StageChunk::none;
    if (!is_there) continue;
    auto const net = [&](Pass pass) {
      return memories.of(whole_task(plan, stage, {pass, MicrobatchId{0}, place.chunk}, variant))
          .net_sum;
    };
    std::int64_t const held = net(Pass::forward) + received - sent;
    in_flight = std::min(in_flight, held);
    // The gradients go the other way. An early recompute adds what its input gradient takes.
    std::int64_t const left = held + net(Pass::input_gradient) + sent - received;
    for_weights = std::min(for_weights, variant == TaskVariant::early ? std::int64_t{0} : left);
  }
  in_flight = std::max<std::int64_t>(in_flight, 0);
  for_weights = std::clamp<std::int64_t>(for_weights, 0, in_flight);
  return {static_cast<double>(in_flight), static_cast<double>(for_weights)};
}

/// The memory that orders on that placement hold, and the memory that they may hold.
StageRooms rooms_on(Placement const& placement, TrainingPlan const& of, System const& system) {
  TrainingPlan const plan = make_programs(of.config, placement, true);
  MemoryMoves memories{plan, plan.programs};
  StageRooms rooms;
  for (VirtualStageId const v : placement.virtual_stage_ids()) {
    rooms.held.push_back(held_memory(plan, memories, v));
  }
  std::int64_t const device = system.accelerator.memory.value.count();
  std::int64_t const counted = room_for(plan.config.memory, system.accelerator).count();
  for (StagePlan const& stage : plan.stages) {
    // Either the counted bytes or the allocator decides whether the stage fits.
    Bytes const left{device - bytes_outside(plan, system, stage)};
    std::int64_t const room =
        std::max(counted, room_without_factor(left, system.software.memory.factor.value).count());
    rooms.room.push_back(static_cast<double>(room - resident_memory(stage).sum()));
  }
  return rooms;
}

/// Why the bound does not hold for passes of the plan; empty if it does.
std::string reason_against(TrainingPlan const& plan) {
  if (plan.placement.copies() > 1) return "microbatches go through two copies of the model";
  if (plan.microbatch_stride > 0) return "microbatches take different times";
  auto const is_beside = [](Task const& task) { return task.beside >= 0; };
  for (StagePlan const& stage : plan.stages) {
    if (std::ranges::any_of(stage.tasks, is_beside)) return "passes run in pairs";
  }
  if (plan.config.schedule.step == StepSync::post_validated) {
    return "with schedule.step post_validated an iteration begins before the last one has ended";
  }
  return "";
}

}  // namespace

ScheduleBound schedule_bound(TrainingPlan const& plan, System const& system) {
  std::string reason = reason_against(plan);
  if (!reason.empty()) return {std::nullopt, reason, std::nullopt, reason};
  CostedPlan const costed{plan, system};
  StageTicks const times = pass_times(costed);
  int const count = static_cast<int>(microbatches(plan.config));
  int const stages = plan.placement.stages();
  int const chunks = plan.placement.chunks();
  std::vector<Placement> placements{round_placement(stages, chunks)};
  if (chunks == 2 && stages > 1) placements.push_back(v_placement(stages));
  // Room for all microbatches, so that memory limits nothing.
  MemoryChanges const memory{.forward = 1, .input_gradient = 0, .weight_gradient = -1};
  SimTime bound = SimTime::max();
  std::optional<SimTime> in_memory;
  for (Placement const& placement : placements) {
    bound = std::min(bound, makespan_bound(placement, count, times, memory,
                                           static_cast<double>(count) * chunks));
    if (plan.differs_by_rank()) continue;
    auto const within = makespan_bound(placement, count, times, rooms_on(placement, plan, system));
    if (within) in_memory = in_memory ? std::min(*in_memory, *within) : *within;
  }
  SimTime const rest = shortest_step(costed) + costed.cost().iteration_overhead();
  ScheduleBound result{bound + rest, "", std::nullopt, ""};
  if (plan.differs_by_rank()) {
    result.reason_in_memory = "because the ranks of a stage hold different bytes";
  } else if (!in_memory) {
    result.reason_in_memory =
        "because not even one microbatch fits beside what a stage always holds";
  } else if (*in_memory <= bound) {
    result.reason_in_memory = "memory does not raise it";
  } else {
    result.in_memory = *in_memory + rest;
  }
  return result;
}

}  // namespace stagecraft
