#include "libsim/engine/settled_config.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/store_window.hpp"
#include "libsim/engine/task_profile.hpp"
#include "libsim/plan/ordered_schedule.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/stage_tasks.hpp"
#include "libsim/plan/task_memory.hpp"
#include "libsim/schedule/early_recompute.hpp"
#include "libsim/schedule/order_search.hpp"

namespace stagecraft {
namespace {

/// What a chunk takes and holds on average.
class AverageChunk {
 public:
  AverageChunk(TrainingPlan const& plan, System const& system)
      : plan_{plan}, cost_{system, plan}, blocks_{profile_blocks(plan, cost_)}, memories_{plan} {}

  ChunkCosts costs() const {
    ChunkCosts costs;
    costs.forward = seconds(Part::forward);
    costs.input_gradient = seconds(Part::input_gradient);
    costs.weight_gradient = seconds(Part::weight_gradient);
    costs.backward = seconds(Part::backward);
    for (int v = 1; v < plan_.placement.virtual_stages(); ++v) {
      int const from = plan_.placement.place(v - 1).stage;
      int const to = plan_.placement.place(v).stage;
      if (from == to) continue;
      MessagePrice const price = cost_.price_message(plan_, from, to);
      costs.transfer = std::max(costs.transfer, to_seconds(price.latency + price.occupancy));
    }
    return costs;
  }

  /// In bytes. The three sum to 0, also where chunks hand something to each other. Where an input
  /// gradient adds to what is held (gathered gradients of sequence parallelism), the forward
  /// reserves it: generators that fill a limit with forwards would be stuck behind them.
  MemoryChanges memory() {
    MemoryChanges memory;
    memory.weight_gradient = std::min(0.0, bytes(Part::weight_gradient));
    memory.forward = std::max(bytes(Part::forward), -memory.weight_gradient);
    memory.input_gradient = -memory.forward - memory.weight_gradient;
    return memory;
  }

 private:
  template <class Value>
  double average(Part part, Value value) const {
    double sum = 0;
    double count = 0;
    for (StagePlan const& stage : plan_.stages) {
      for (std::size_t chunk = 0; chunk < stage.chunks.size(); ++chunk) {
        ChunkRun const run{part, 0, static_cast<std::int32_t>(chunk)};
        sum += value(stage, whole_task(plan_, stage, run, TaskVariant::policy));
        ++count;
      }
    }
    return sum / count;
  }
  double seconds(Part part) const {
    return average(part, [&](StagePlan const& stage, Task const& task) {
      return to_seconds(profile_task(plan_, stage, task, blocks_, cost_).duration);
    });
  }
  double bytes(Part part) {
    return average(part, [&](StagePlan const& /*stage*/, Task const& task) {
      return static_cast<double>(memories_.of(task).net_sum);
    });
  }

  TrainingPlan const& plan_;
  CostModel cost_;
  std::vector<BlockProfile> blocks_;
  TaskMemories memories_;
};

/// What the chunks of all virtual stages take, with and without recompute.
std::vector<RecomputeTimes> recompute_times(TrainingPlan const& plan, System const& system) {
  CostModel const cost{system, plan};
  std::vector<BlockProfile> const blocks = profile_blocks(plan, cost);
  std::vector<RecomputeTimes> times;
  for (int v = 0; v < plan.placement.virtual_stages(); ++v) {
    ChunkPlace const place = plan.placement.place(v);
    StagePlan const& stage = plan.stages[static_cast<std::size_t>(place.stage)];
    auto const duration = [&](Part part, TaskVariant variant) {
      Task const task = whole_task(plan, stage, {part, 0, place.chunk}, variant);
      return profile_task(plan, stage, task, blocks, cost).duration;
    };
    RecomputeTimes& of_chunk = times.emplace_back();
    of_chunk.forward = duration(Part::forward, TaskVariant::policy);
    of_chunk.backward = duration(Part::backward, TaskVariant::policy);
    of_chunk.input_gradient = duration(Part::input_gradient, TaskVariant::policy);
    of_chunk.weight_gradient = duration(Part::weight_gradient, TaskVariant::policy);
    of_chunk.recompute = duration(Part::recompute, TaskVariant::early);
    if (plan.placement.is_last(v)) continue;
    int const next = plan.placement.place(v + 1).stage;
    if (next == place.stage) continue;
    MessagePrice const price = cost.price_message(plan, place.stage, next);
    of_chunk.transfer = price.latency + price.occupancy;
  }
  return times;
}

/// Gives recompute the bubbles of the run's schedule.
void settle_recompute(TrainingConfig& config, System const& system) {
  ScheduleShape const shape = checked_shape(schedule_shape(config));
  PipelineOrder const order = shape.order ? *shape.order : order_of(lay_out_checked(shape));
  TrainingPlan const plan = make_programs(config, placement_of(shape), splits_backward(shape));
  config.schedule.order = SharedOrder{with_early_recompute(order, recompute_times(plan, system))};
  config.schedule.kind = ScheduleKind::order;
  config.schedule.group = 0;
}

void settle_schedule(TrainingConfig& config, System const& system) {
  ScheduleConfig& schedule = config.schedule;
  TrainingConfig without_windows = config;
  for (RecomputePolicy& policy : without_windows.recompute) policy.store_microbatches = {};
  ScheduleShape const shape = schedule_shape(config);
  TrainingPlan const plan = make_programs(without_windows, placement_of(shape), true);
  AverageChunk chunk{plan, system};
  OrderRequest request = order_request(shape);
  request.costs = chunk.costs();
  request.memory = chunk.memory();
  request.memory_limit = schedule.memory_limit;
  schedule.order =
      SharedOrder{shape.kind == ScheduleKind::searched
                      ? search_order(request, {.seed = static_cast<std::uint64_t>(schedule.seed),
                                               .iterations = schedule.iterations,
                                               .seconds = schedule.seconds})
                            .order
                      : make_order(request)};
  schedule.kind = ScheduleKind::order;
}

}  // namespace

TrainingConfig with_settled_order(TrainingConfig config, System const& system) {
  bool const is_settled = config.schedule.kind == ScheduleKind::order;
  if (depends_on_costs(config.schedule.kind, config.schedule.variant)) {
    settle_schedule(config, system);
  }
  if (recomputes_early(config) && !is_settled) settle_recompute(config, system);
  return config;
}

TrainingConfig settled(TrainingConfig config, System const& system) {
  return resolve_store_windows(with_settled_order(std::move(config), system), system);
}

}  // namespace stagecraft
