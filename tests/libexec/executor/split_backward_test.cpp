#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "libsim/engine/settle.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/training/run_schedule.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

namespace stagecraft::split_backward_test {
namespace {

PipelineOrder order_of(TrainingConfig const& config) {
  return *with_order(schedule_shape(config)).order;
}

/// The microbatches whose weight gradients a virtual stage computes, in order, counted from the
/// first of its copy of the model.
std::vector<MicrobatchId> weight_gradients(PipelineOrder const& order,
                                           VirtualStageId virtual_stage) {
  ChunkPlace const place = order.placement.place(virtual_stage);
  MicrobatchId const first =
      microbatches_of_copy(order, order.placement.copy_of(virtual_stage)).first;
  std::vector<MicrobatchId> microbatches;
  for (OrderTask const& task : order.stages[place.stage.index()]) {
    if (task.run.chunk == place.chunk && ends_in_flight(task.run.pass)) {
      microbatches.push_back(task.run.microbatch + -first.value());
    }
  }
  return microbatches;
}

bool keeps_microbatch_order(PipelineOrder const& order) {
  for (VirtualStageId const v : order.placement.virtual_stage_ids()) {
    std::vector<MicrobatchId> const microbatches = weight_gradients(order, v);
    if (!std::is_sorted(microbatches.begin(), microbatches.end())) return false;
  }
  return true;
}

/// One rank for each copy of the model that adds the weight gradients of every chunk in the same
/// order, one part after another. Copies are replicas: both halve the sum of the halves.
TrainingConfig serial_reference(TrainingConfig config) {
  PipelineOrder const order = order_of(config);
  int const chunks = order.placement.parts();
  int const copies = order.placement.copies();
  PipelineOrder serial{round_placement(1, chunks), order.microbatches / copies, {{}}};
  auto const append = [&](Pass pass, MicrobatchId microbatch, std::int32_t chunk) {
    serial.stages.front().push_back({{pass, microbatch, ChunkId{chunk}}, false});
  };
  for (MicrobatchId const i : IdRange<MicrobatchId>{serial.microbatches}) {
    for (int v = 0; v < chunks; ++v) append(Pass::forward, i, v);
  }
  for (MicrobatchId const i : IdRange<MicrobatchId>{serial.microbatches}) {
    for (int v = chunks; v-- > 0;) append(Pass::input_gradient, i, v);
  }
  for (VirtualStageId const v : order.placement.virtual_stage_ids()) {
    VirtualStageId const in_first{order.placement.part_of(v)};
    if (v != in_first) {
      REQUIRE(weight_gradients(order, v) == weight_gradients(order, in_first));
      continue;
    }
    for (MicrobatchId const i : weight_gradients(order, v)) {
      append(Pass::weight_gradient, i, v.value());
    }
  }
  config.parallel.data *= copies;
  config.parallel.pipeline = 1;
  config.parallel.interleave = chunks;
  config.schedule.kind = ScheduleKind::order;
  config.schedule.order = SharedOrder{std::move(serial)};
  return config;
}

/// What computes the same bits: one rank, unless weight gradients are summed in another order.
TrainingConfig reference_of(TrainingConfig const& base, TrainingConfig const& config) {
  PipelineOrder const order = order_of(config);
  bool const is_sum_of_one_rank = order.placement.copies() == 1 && keeps_microbatch_order(order);
  return is_sum_of_one_rank ? base : serial_reference(config);
}

TEST_CASE("schedules that split the backward compute the bits of one rank, with every policy",
          "[split][long]") {
  TrainingConfig const base =
      GENERATE(untied(small_gpt(Precision::fp32)), small_llama(Precision::bf16));
  for (NamedRun const& run : split_layouts_of(base)) {
    for (NamedPolicy const& policy : all_policies()) {
      if (policy.policy.sharded_checkpoints) continue;  // needs tensor ranks
      CAPTURE(run.name, policy.name);
      TrainingConfig split = run.config;
      split.recompute = {policy.policy};
      require_same_bits(reference_of(base, split), split);
    }
  }
}

TEST_CASE("weight gradients in any order sum to those of one rank", "[split]") {
  TrainingConfig const base = small_gpt(Precision::fp64);
  for (NamedRun const& run : split_layouts_of(base)) {
    CAPTURE(run.name);
    require_close(base, run.config, 1e-12);
  }
}

/// Policies that treat the inputs of weight gradients, or the place of recompute, otherwise.
std::vector<NamedPolicy> late_and_early_policies(bool is_split) {
  RecomputePolicy full{.granularity = RecomputeGranularity::full};
  RecomputePolicy pairs = full;
  pairs.layers = 2;
  RecomputePolicy modules{.granularity = RecomputeGranularity::selective,
                          .modules = {"mlp", "core_attention", "layernorm"}};
  std::vector<NamedPolicy> policies;
  for (NamedPolicy const& policy :
       {NamedPolicy{"full", full}, NamedPolicy{"pairs", pairs}, NamedPolicy{"modules", modules}}) {
    NamedPolicy again = policy;
    again.name += ", again";
    again.policy.for_weights = WeightRecompute::again;
    if (is_split) policies.push_back(again);
    NamedPolicy early = policy;
    early.name += ", early";
    early.policy.early = EarlyRecompute::bubble;
    policies.push_back(early);
    if (policy.name != "full") continue;
    early.name += ", window";
    early.policy.store_microbatches.count = 1;
    policies.push_back(early);
  }
  return policies;
}

/// Split schedules, 1F1B and interleaved 1F1B with such policies, settled.
std::vector<NamedRun> late_and_early_runs(TrainingConfig const& base) {
  std::vector<NamedRun> runs = split_layouts_of(base);
  std::size_t const split = runs.size();
  for (int const chunks : {1, 2}) {
    TrainingConfig config = base;
    config.parallel.pipeline = 2;
    config.parallel.interleave = chunks;
    config.schedule.kind = chunks == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::interleaved;
    config.schedule.p2p = P2p::overlapped;
    runs.push_back({chunks == 1 ? "1f1b" : "interleaved", config});
  }
  std::vector<NamedRun> made;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (NamedPolicy const& policy : late_and_early_policies(i < split)) {
      TrainingConfig config = runs[i].config;
      config.recompute = {policy.policy};
      made.push_back({runs[i].name + ", " + policy.name, settled(config, invented_system()).get()});
    }
  }
  return made;
}

TEST_CASE("early recompute, and recompute for weight gradients again, compute the same bits",
          "[split][long]") {
  TrainingConfig const base =
      GENERATE(untied(small_gpt(Precision::fp32)), small_llama(Precision::bf16));
  int early = 0;
  for (NamedRun const& run : late_and_early_runs(base)) {
    CAPTURE(run.name);
    PipelineOrder const order = order_of(run.config);
    for (auto const& tasks : order.stages) {
      early += static_cast<int>(std::count_if(tasks.begin(), tasks.end(), [](auto const& task) {
        return task.run.pass == Pass::recompute;
      }));
    }
    require_same_bits(reference_of(base, run.config), run.config);
  }
  REQUIRE(early > 20);
}

/// Every schedule, with tensor ranks, replicas and buckets, and every policy.
std::vector<NamedRun> split_grid() {
  TrainingConfig sharded = small_llama(Precision::bf16);
  sharded.parallel.tensor = 2;
  TrainingConfig replicated = small_gpt(Precision::fp32);
  replicated.parallel.data = 2;
  replicated.batch.global *= 2;
  replicated.parallel.overlap_gradients = true;
  replicated.memory = {.output_deallocation = false};
  replicated.sharding = sharding_of(true);
  replicated.model.attention = Attention::flash;
  std::vector<NamedRun> grid;
  for (TrainingConfig const& base : {small_gpt(Precision::fp16), sharded, replicated}) {
    for (NamedRun& run : split_layouts_of(base)) {
      for (NamedPolicy const& policy : all_policies()) {
        bool const has_shards = policy.policy.sharded_checkpoints;
        if (has_shards && base.parallel.tensor == 1) continue;
        TrainingConfig config = run.config;
        config.recompute = {policy.policy};
        config.parallel.sequence = base.parallel.tensor > 1 && !has_shards;
        grid.push_back({run.name + ", " + policy.name + ", tensor " +
                            std::to_string(base.parallel.tensor) + ", data " +
                            std::to_string(base.parallel.data),
                        std::move(config)});
      }
    }
  }
  return grid;
}

TEST_CASE("split backwards hold what the simulator predicts, to the byte, on more than 150 plans",
          "[split][memory][long]") {
  std::vector<NamedRun> grid = split_grid();
  REQUIRE(grid.size() >= 150);
  TrainingConfig sharded = small_llama(Precision::bf16);
  sharded.parallel.tensor = 2;
  sharded.parallel.sequence = true;
  TrainingConfig replicated = small_gpt(Precision::fp32);
  replicated.parallel.data = 2;
  replicated.batch.global *= 2;
  replicated.parallel.overlap_gradients = true;
  replicated.memory.output_deallocation = false;
  for (TrainingConfig const& base : {small_gpt(Precision::fp16), sharded, replicated}) {
    for (NamedRun& run : late_and_early_runs(base)) grid.push_back(std::move(run));
  }
  for (NamedRun const& run : grid) {
    CAPTURE(run.name);
    Simulation const predicted = simulate(make_plan(as_settled(run.config)), invented_system());
    Execution const counted = execute(run.config, {.gemm = GemmKind::openblas});
    for (RankReport const& rank : counted.ranks) {
      StageResult const& stage = predicted.stages[rank.stage.index()];
      CAPTURE(rank.rank.value(), rank.stage.value());
      for (Category const category :
           {Category::parameters, Category::gradients, Category::optimizer, Category::activations,
            Category::recomputed, Category::communication}) {
        CAPTURE(name_of(category));
        CHECK(rank.at_peak[category] == stage.at_peak[category]);
      }
      CHECK(rank.activation_peak == stage.activation_peak);
    }
  }
}

}  // namespace
}  // namespace stagecraft::split_backward_test
