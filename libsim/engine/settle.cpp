#include "libsim/engine/settle.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/player/task_profile.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/store_window.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/memory/memory_moves.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/plan/training_plan.hpp"
#include "libsim/schedule/generators/early_recompute.hpp"
#include "libsim/schedule/generators/named_orders.hpp"
#include "libsim/schedule/generators/order_search.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/orders/chunk_costs.hpp"
#include "libsim/schedule/orders/memory_changes.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"
#include "libsim/schedule/schedule_layout.hpp"
#include "libsim/schedule/store_window.hpp"
#include "libsim/training/run_schedule.hpp"

namespace stagecraft {
namespace {

PipelineOrder one_f_one_b(OrderRequest const& request) {
  ScheduleShape shape;
  shape.stages = request.stages;
  shape.microbatches = request.microbatches;
  return order_of(make_pipeline_schedule(shape));
}

/// Orders for the request within its memory limit: found by search (once with split backwards, once
/// with halves that may join), named schedules, 1F1B and interleaved 1F1B. Each search tries the
/// changes of `effort` and takes at most half of its seconds.
/// \throws ScheduleError  if there is none.
std::vector<PipelineOrder> known_orders(OrderRequest const& request, SearchEffort const& effort) {
  SearchEffort half = effort;
  half.seconds /= 2;
  std::vector<PipelineOrder> orders;
  for (bool const joins : {false, true}) {
    OrderRequest searched = request;
    searched.joins_backward = joins;
    PipelineOrder order = search_order(searched, half).order;
    if (orders.empty() || order != orders.front()) orders.push_back(std::move(order));
  }
  double const forwards = memory_limit_of(request);
  auto const add = [&](PipelineOrder&& order) {
    if (keeps_limit(order, request.memory, forwards * request.memory.forward)) {
      orders.push_back(std::move(order));
    }
  };
  OrderRequest named = request;
  named.memory_limit = forwards;
  for (PipelineOrder& order : named_orders(named)) add(std::move(order));
  if (request.chunks == 1) add(one_f_one_b(request));
  return orders;
}

/// The data of a plan's chunks for generators of orders: times in seconds, memory in bytes. The
/// plan, whose backwards are split, and the system must outlive it.
class AverageChunk {
 public:
  AverageChunk(TrainingPlan const& plan, System const& system);

  /// The mean over all chunks, and the longest message.
  ChunkCosts costs() const;
  /// The costs of each virtual stage, each with the longest message of any.
  std::vector<ChunkCosts> stage_costs() const;

  /// The mean over all chunks. The three changes sum to 0, even if chunks hand something to each
  /// other. If an input gradient adds memory (gathered gradients of sequence parallelism), the
  /// forward reserves it: generators that fill a limit with forwards would otherwise be stuck.
  MemoryChanges memory();

 private:
  double seconds(StagePlan const& stage, Pass pass, ChunkId chunk) const;
  double longest_message() const;
  double mean_bytes(Pass pass);

  TrainingPlan const& plan_;
  CostModel cost_;
  std::vector<BlockProfile> blocks_;
  MemoryMoves memories_;
};

Task task_of(TrainingPlan const& plan, StagePlan const& stage, Pass pass, ChunkId chunk) {
  return whole_task(plan, stage, {pass, MicrobatchId{0}, chunk}, TaskVariant::policy);
}

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

/// The times of the chunks of all virtual stages, with and without recompute.
std::vector<RecomputeTimes> recompute_times(TrainingPlan const& plan, System const& system) {
  CostModel const cost{system, plan};
  std::vector<BlockProfile> const blocks = profile_blocks(plan.programs, cost);
  std::vector<RecomputeTimes> times;
  for (VirtualStageId const v : plan.placement.virtual_stage_ids()) {
    ChunkPlace const place = plan.placement.place(v);
    StagePlan const& stage = plan.stages[place.stage];
    auto const duration = [&](Pass pass, TaskVariant variant) {
      Task const task = whole_task(plan, stage, {pass, MicrobatchId{0}, place.chunk}, variant);
      return profile_task(plan.programs, stage, task, blocks, cost).duration;
    };
    RecomputeTimes& of_chunk = times.emplace_back();
    of_chunk.forward = duration(Pass::forward, TaskVariant::policy);
    of_chunk.backward = duration(Pass::backward, TaskVariant::policy);
    of_chunk.input_gradient = duration(Pass::input_gradient, TaskVariant::policy);
    of_chunk.weight_gradient = duration(Pass::weight_gradient, TaskVariant::policy);
    of_chunk.recompute = duration(Pass::recompute, TaskVariant::early);
    if (plan.placement.is_last(v)) continue;
    StageId const after = plan.placement.place(next(v)).stage;
    if (after == place.stage) continue;
    MessageCost const message = cost.message_cost(place.stage, after);
    of_chunk.transfer = message.latency + message.occupancy;
  }
  return times;
}

/// Whether a window of the run stores the activations of a chunk pass, by virtual stage and then
/// microbatch.
std::vector<bool> stored_passes(TrainingConfig const& config,
                                ScheduleShape shape,
                                PipelineOrder const& order) {
  auto const microbatches = static_cast<std::size_t>(order.microbatches);
  std::vector<bool> stored(static_cast<std::size_t>(order.placement.virtual_stages()) *
                           microbatches);
  shape.order = SharedOrder{order};  // its windows are those of the settled run
  for (StageId const stage : order.placement.stage_ids()) {
    int const count = policy_of(config, stage).store_microbatches.count;
    if (count == 0) continue;
    WindowPlaces places{shape, stage};
    for (OrderTask const& task : order.stages[stage.index()]) {
      if (task.run.pass != Pass::forward || places.of(task.run) >= count) continue;
      VirtualStageId const v = order.placement.virtual_stage({stage, task.run.chunk});
      stored[v.index() * microbatches + task.run.microbatch.index()] = true;
    }
  }
  return stored;
}

/// Lets recompute run in the bubbles of the run's schedule.
void settle_recompute(TrainingConfig& config, System const& system) {
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  PipelineOrder const order = shape.order ? *shape.order : order_of(lay_out_checked(shape));
  TrainingPlan const plan = make_programs(config, placement_of(shape), splits_backward(shape));
  config.schedule.order = SharedOrder{with_early_recompute(order, recompute_times(plan, system),
                                                           stored_passes(config, shape, order))};
  config.schedule.kind = ScheduleKind::order;
  config.schedule.group = 0;
}

/// The run of a schedule that depends on costs, with the request for its order's generator.
struct CostedRequest {
  ScheduleShape shape;
  OrderRequest request;
};

CostedRequest costed_request(TrainingConfig const& config, System const& system) {
  TrainingConfig without_windows = config;
  for (RecomputePolicy& policy : without_windows.recompute) policy.store_microbatches = {};
  CostedRequest made{schedule_shape(config), {}};
  TrainingPlan const plan = make_programs(without_windows, placement_of(made.shape), true);
  AverageChunk chunk{plan, system};
  made.request = order_request(made.shape);
  made.request.costs = chunk.costs();
  made.request.stage_costs = chunk.stage_costs();
  made.request.memory = chunk.memory();
  made.request.memory_limit = config.schedule.memory_limit;
  return made;
}

void settle_order(TrainingConfig& config, System const& system, PipelineOrder order) {
  config.schedule.order = SharedOrder{std::move(order)};
  config.schedule.kind = ScheduleKind::order;
  if (recomputes_early(config)) settle_recompute(config, system);
}

/// The criteria of a candidate: whether it fits, then its time, then its memory.
using Judgement = std::tuple<bool, SimTime, Bytes>;

Judgement judge(TrainingConfig const& config, System const& system) {
  Prediction const prediction = predict(as_settled(resolve_store_windows(config, system)), system);
  Bytes const peak = largest_peak(prediction.stages);
  bool const is_too_large = peak > room_for(config.memory, system.accelerator);
  return {is_too_large, prediction.iteration, peak};
}

/// The run with the best of all known orders: the searched ones, and the named ones within the
/// memory limit.
TrainingConfig with_searched_order(TrainingConfig const& config, System const& system) {
  auto const& [shape, request] = costed_request(config, system);
  std::optional<std::pair<Judgement, TrainingConfig>> best;
  for (PipelineOrder& order :
       known_orders(request, {.seed = static_cast<std::uint64_t>(config.schedule.seed),
                             .iterations = config.schedule.iterations,
                             .seconds = config.schedule.seconds})) {
    TrainingConfig candidate = config;
    try {
      settle_order(candidate, system, std::move(order));
      Judgement const judged = judge(candidate, system);
      if (best && best->first <= judged) continue;
      best.emplace(judged, std::move(candidate));
    } catch (ScheduleError const&) {
      // No plan can hold the order.
      continue;
    }
  }
  if (!best) {
    throw ScheduleError{"schedule", "'searched', none of whose orders a plan can hold",
                        "another schedule"};
  }
  return best->second;
}

void settle_schedule(TrainingConfig& config, System const& system) {
  settle_order(config, system, make_order(costed_request(config, system).request));
}

}  // namespace

TrainingConfig with_settled_order(TrainingConfig config, System const& system) {
  if (config.schedule.kind == ScheduleKind::order) return config;
  if (config.schedule.kind == ScheduleKind::searched) return with_searched_order(config, system);
  if (depends_on_costs(config.schedule.kind, config.schedule.variant)) {
    settle_schedule(config, system);
  } else if (recomputes_early(config)) {
    settle_recompute(config, system);
  }
  return config;
}

SettledConfig settled(TrainingConfig config, System const& system) {
  return as_settled(resolve_store_windows(with_settled_order(std::move(config), system), system));
}

}  // namespace stagecraft
