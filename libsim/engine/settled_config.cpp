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
        sum += value(stage, whole_task(plan_, stage, run, false));
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

}  // namespace

TrainingConfig with_settled_order(TrainingConfig config, System const& system) {
  ScheduleConfig& schedule = config.schedule;
  if (!depends_on_costs(schedule.kind, schedule.variant)) return config;
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
  return config;
}

TrainingConfig settled(TrainingConfig config, System const& system) {
  return resolve_store_windows(with_settled_order(std::move(config), system), system);
}

}  // namespace stagecraft
