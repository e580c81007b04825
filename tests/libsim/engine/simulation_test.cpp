#include "libsim/engine/simulation.hpp"

#include <catch2/catch.hpp>

#include "libsim/memory/stage_memory.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft::simulation_test {
namespace {

SimTime sum(Breakdown const& breakdown) {
  return breakdown.shares.sum() + breakdown.transfer + breakdown.bubble;
}

TEST_CASE("the breakdown sums to the iteration, to the picosecond", "[simulation]") {
  for (OddRun const& run : odd_runs()) {
    for (System const& system : {invented_system(), lossy_system()}) {
      Simulation const result = simulate(make_plan(as_settled(run.config)), system);
      CAPTURE(run.name);
      REQUIRE(sum(result.breakdown) == result.iteration);
    }
  }
}

TEST_CASE("no share of an iteration is negative, no stage busier than the ideal time",
          "[simulation]") {
  for (OddRun const& run : odd_runs()) {
    Simulation const result = simulate(make_plan(as_settled(run.config)), lossy_system());
    CAPTURE(run.name);
    TimeShares const& shares = result.breakdown.shares;
    for (SimTime const share : {shares.forward, shares.backward, shares.recompute,
                                shares.head_and_embedding, shares.data_parallel, shares.optimizer,
                                result.breakdown.transfer, result.breakdown.bubble}) {
      REQUIRE(share >= SimTime{0});
    }
    REQUIRE(result.iteration >= result.ideal);
    REQUIRE(result.bubble_fraction() >= 0);
    for (StageResult const& stage : result.stages) {
      REQUIRE(stage.busy <= result.ideal);
      REQUIRE(stage.peak_at >= SimTime{0});
      REQUIRE(stage.peak_at <= result.iteration);
    }
  }
}

TEST_CASE("the peak holds at least parameters, gradients and optimizer, and the declared workspace",
          "[simulation]") {
  for (OddRun const& run : odd_runs()) {
    TrainingPlan const plan = make_plan(as_settled(run.config));
    Simulation const result = simulate(plan, lossy_system());
    for (std::size_t i = 0; i < plan.stages.size(); ++i) {
      CAPTURE(run.name, i);
      CategoryBytes const& peak = result.stages[i].at_peak;
      REQUIRE(peak[Category::parameters] ==
              plan.stages[StageId::of_index(i)].state_bytes(Category::parameters).count());
      REQUIRE(peak[Category::gradients] ==
              plan.stages[StageId::of_index(i)].state_bytes(Category::gradients).count());
      REQUIRE(peak[Category::optimizer] ==
              plan.stages[StageId::of_index(i)].state_bytes(Category::optimizer).count());
      REQUIRE(peak[Category::workspace] == 4 << 20);
    }
  }
}

TEST_CASE("memory does not depend on costs", "[simulation]") {
  for (OddRun const& run : odd_runs()) {
    TrainingPlan const plan = make_plan(as_settled(run.config));
    Simulation const free = simulate(plan, invented_system());
    Simulation const lossy = simulate(plan, lossy_system());
    for (std::size_t i = 0; i < free.stages.size(); ++i) {
      CategoryBytes expected = free.stages[i].at_peak;
      expected[Category::workspace] = 4 << 20;
      CAPTURE(run.name, i);
      REQUIRE(lossy.stages[i].at_peak == expected);
      REQUIRE(lossy.stages[i].activation_peak == free.stages[i].activation_peak);
    }
  }
}

TEST_CASE("a peak with activations in it is not at the start of the iteration", "[simulation]") {
  // Gradients are zeroed first, which takes time and no activations.
  for (OddRun const& run : odd_runs()) {
    for (StageResult const& stage :
         simulate(make_plan(as_settled(run.config)), lossy_system()).stages) {
      CAPTURE(run.name, stage.stage);
      REQUIRE(stage.at_peak.activation_sum() > 0);
      REQUIRE(stage.peak_at > SimTime{0});
    }
  }
}

TEST_CASE("a peak made by posting a receive is when its rank posts it", "[simulation]") {
  // The first stage only embeds, without dropout: no pass needs a temporary. Behind its fourth
  // forward it sends an output (2sbh) and opens the buffer of the first gradient (2sbh), with ids
  // (8sb) and causal masks (s^2) of four microbatches.
  TrainingConfig config = modest_run(1, 4);
  config.layout = {.kind = LayerSplit::Kind::list, .first = {}, .last = {}, .list = {0, 3, 3, 2}};
  config.model.dropout = 0;
  Simulation const result = simulate(make_plan(as_settled(config)), lossy_system());
  std::int64_t const s = 64, b = 2, h = 128;
  REQUIRE(result.stages[0].activation_peak == 2 * 2 * s * b * h + 4 * (8 * s * b + s * s));
  // Four embeddings have run by then, each at least its launches of 3 us.
  REQUIRE(result.stages[0].peak_at > to_sim_time(4 * 3e-6));
  REQUIRE(result.stages[0].peak_at < result.iteration);
}

TEST_CASE("a stage fits when its peak and the reserve are within the capacity", "[simulation]") {
  TrainingConfig config = modest_run(1, 2);
  System system = invented_system();
  Simulation const roomy = simulate(make_plan(as_settled(config)), system);
  std::int64_t const fullest = std::max(roomy.stages[0].peak(), roomy.stages[1].peak());
  config.memory.reserve = Bytes{1000};
  system.accelerator.memory.value = Bytes{fullest + 1000};
  for (StageResult const& stage : simulate(make_plan(as_settled(config)), system).stages)
    REQUIRE(stage.fits);
  system.accelerator.memory.value = Bytes{fullest + 999};
  int fitting = 0;
  for (StageResult const& stage : simulate(make_plan(as_settled(config)), system).stages) {
    fitting += stage.fits ? 1 : 0;
  }
  REQUIRE(fitting == 1);
}

/// A machine on which only large matrix products take time, and a model whose head has next to
/// none.
TrainingConfig uniform_run(int pipeline, int chunks, std::int64_t microbatches) {
  TrainingConfig config;
  config.model = gpt(8, 128, 2, 512, 1);
  config.model.vocabulary_multiple = 1;
  config.model.ffn_hidden = 1 << 15;
  config.parallel = {.tensor = 1, .pipeline = pipeline, .interleave = chunks};
  if (chunks > 1) {
    config.schedule.kind = ScheduleKind::interleaved;
    config.schedule.group = pipeline;
  }
  config.batch.global = microbatches;
  return config;
}

System products_only() {
  System system = invented_system();
  system.accelerator.bandwidth.value = {1e21};
  system.node.p2p.value.bandwidth = {1e21};
  system.network.bandwidth.value = {1e21};
  return system;
}

TEST_CASE("with equal chunks and free messages the bubble is (p-1)/(mn)", "[simulation]") {
  // Narayanan et al. 2021, arXiv:2104.04473, section 2.2. The head's one row is 0.1 % of a chunk.
  for (int const p : {1, 2, 4}) {
    for (int const m : {1, 2}) {
      if (p == 1 && m > 1) continue;
      for (std::int64_t const n : {4, 8, 32}) {
        double const bubble = simulate(make_plan(as_settled(uniform_run(p, m, n))), products_only())
                                  .bubble_fraction();
        CAPTURE(p, m, n);
        REQUIRE(bubble == Approx((p - 1.0) / (m * static_cast<double>(n))).margin(0.003));
      }
    }
  }
}

TEST_CASE("GPipe has the bubble of 1F1B", "[simulation]") {
  TrainingConfig config = uniform_run(4, 1, 8);
  config.schedule.kind = ScheduleKind::gpipe;
  REQUIRE(simulate(make_plan(as_settled(config)), products_only()).bubble_fraction() ==
          Approx(3.0 / 8).margin(0.003));
}

TEST_CASE("full recompute adds a third to layers whose communication is free", "[simulation]") {
  TrainingConfig config = uniform_run(1, 1, 4);
  SimTime const stored = simulate(make_plan(as_settled(config)), products_only()).iteration;
  config.recompute.front().granularity = RecomputeGranularity::full;
  Simulation const full = simulate(make_plan(as_settled(config)), products_only());
  REQUIRE(to_seconds(full.iteration) == Approx(4.0 / 3 * to_seconds(stored)).epsilon(0.01));
  REQUIRE(full.breakdown.shares.recompute == full.breakdown.shares.forward);
}

TEST_CASE(
    "the optimizer phase takes 66 bytes per parameter at the memory's rate with fp16, 58 with bf16",
    "[simulation]") {
  TrainingConfig config = modest_run(1, 1);
  auto const seconds = [&] {
    return to_seconds(
        simulate(make_plan(as_settled(config)), invented_system()).breakdown.shares.optimizer);
  };
  auto const parameters =
      static_cast<double>(make_plan(as_settled(config)).stages[StageId{0}].parameters);
  REQUIRE(seconds() == Approx(66 * parameters / 1e12).epsilon(1e-6));
  config.model.precision = Precision::bf16;
  REQUIRE(seconds() == Approx(58 * parameters / 1e12).epsilon(1e-6));
}

TEST_CASE("the optimizer phase of the 22B run takes 105 ms on its A100s", "[simulation]") {
  // 66 bytes x 22.07e9 / 8 parameters at 0.85 of 2039 GB/s; 1 % above, for what is not cut into 8.
  TrainingConfig const config = run_of(table3_rows[0], RecomputeGranularity::selective, true);
  System system = invented_system();
  system.accelerator.bandwidth.value = {2039e9};
  system.calibration.stream_efficiency.value = 0.85;
  REQUIRE(to_seconds(simulate(make_plan(as_settled(config)), system).breakdown.shares.optimizer) ==
          Approx(66 * 22.074e9 / 8 / (0.85 * 2039e9)).epsilon(0.01));
}

TEST_CASE("the fixed overhead is in the iteration and not in the ideal time", "[simulation]") {
  TrainingConfig const config = modest_run(2, 2);
  System system = invented_system();
  Simulation const without = simulate(make_plan(as_settled(config)), system);
  system.calibration.iteration_overhead.value = {0.25};
  Simulation const with = simulate(make_plan(as_settled(config)), system);
  REQUIRE(with.iteration - without.iteration == to_sim_time(0.25));
  REQUIRE(with.ideal == without.ideal);
}

TEST_CASE("replicas change what is reduced, not what a replica computes", "[simulation]") {
  TrainingConfig config = modest_run(2, 2);
  Simulation const one = simulate(make_plan(as_settled(config)), invented_system());
  config.parallel.data = 8;
  config.batch.global *= 8;
  Simulation const eight = simulate(make_plan(as_settled(config)), invented_system());
  REQUIRE(eight.breakdown.shares.forward == one.breakdown.shares.forward);
  REQUIRE(eight.breakdown.shares.backward == one.breakdown.shares.backward);
  REQUIRE(eight.model_flops == 8 * one.model_flops);
  REQUIRE(eight.breakdown.shares.data_parallel > one.breakdown.shares.data_parallel);
}

TEST_CASE("the reduction of 8 replicas takes a ring's bytes over the network", "[simulation]") {
  // 4 bytes per parameter, 2 (d-1)/d of them at 10 GB/s, and the tied embedding's between two
  // stages.
  TrainingConfig config = modest_run(8, 1, 8);
  auto const bytes =
      4.0 * static_cast<double>(make_plan(as_settled(config)).stages[StageId{0}].parameters);
  Simulation const result = simulate(make_plan(as_settled(config)), invented_system());
  REQUIRE(to_seconds(result.breakdown.shares.data_parallel) ==
          Approx(2 * 7.0 / 8 * bytes / 10e9).epsilon(1e-6));
}

TEST_CASE("the gradient norm's all-reduce is time of the optimizer, not of gradient reduction",
          "[simulation]") {
  // Four stages in one node; untied, so that nothing else is reduced. A ring of 4 pays 20 us here.
  TrainingConfig config = modest_run(1, 4);
  config.model.tied_embeddings = false;
  config.model.precision =
      Precision::bf16;  // no loss scale, so no second all-reduce for infinities
  System system = invented_system();
  SimTime const before = simulate(make_plan(as_settled(config)), system).breakdown.shares.optimizer;
  system.node.all_reduce.value.latency = {20e-6};
  TimeShares const shares = simulate(make_plan(as_settled(config)), system).breakdown.shares;
  REQUIRE(shares.data_parallel == SimTime{0});
  REQUIRE(shares.optimizer - before == to_sim_time(20e-6));
}

TEST_CASE("overlapping the reduction hides it and slows the backward beside it", "[simulation]") {
  TrainingConfig config = modest_run(1, 2, 2);
  config.model = gpt(4, 2048, 16, 64, 32000);
  System system = invented_system();
  Simulation const at_end = simulate(make_plan(as_settled(config)), system);
  config.parallel.overlap_gradients = true;
  Simulation const overlapped = simulate(make_plan(as_settled(config)), system);
  REQUIRE(overlapped.iteration < at_end.iteration);
  system.calibration.overlap_slowdown.value = 0.5;
  Simulation const slowed = simulate(make_plan(as_settled(config)), system);
  REQUIRE(slowed.iteration >= overlapped.iteration);
  REQUIRE(slowed.stages[0].busy >
          overlapped.stages[0].busy);  // its buckets; the last stage has one
  REQUIRE(sum(slowed.breakdown) == slowed.iteration);
}

TEST_CASE("the layer of a result is one layer's passes and table 2", "[simulation]") {
  TrainingConfig const config = run_of(table3_rows[1], RecomputeGranularity::selective, true);
  Simulation const result = simulate(make_plan(as_settled(config)), lossy_system());
  BlockShape const shape = make_outline(config).shape;
  BlockProgram const layer = build_layers(shape, 1, config.recompute.front());
  REQUIRE(result.layer.has_value());
  REQUIRE(result.layer->saved == saved_bytes(layer));
  REQUIRE(result.layer->paper == paper_bytes(shape, config.recompute.front()));
  // 34 sbh/t, s = 2048, b = 1, h = 12288, t = 8.
  REQUIRE(result.layer->paper->count() == 34LL * 2048 * 12288 / 8);
}

TEST_CASE("the layer's closed form is of the policy of a stage that has layers", "[simulation]") {
  TrainingConfig config = modest_run(1, 2);
  config.layout = {.kind = LayerSplit::Kind::list, .first = {}, .last = {}, .list = {0, 8}};
  config.recompute = {{}, {.granularity = RecomputeGranularity::full}};
  Simulation const result = simulate(make_plan(as_settled(config)), lossy_system());
  REQUIRE(result.layer->saved == Bytes{2 * 64 * 2 * 128});
  REQUIRE(result.layer->paper == Bytes{2 * 64 * 2 * 128});
}

TEST_CASE("layers that differ in policy have no common result", "[simulation]") {
  TrainingConfig config = modest_run(2, 2);
  SECTION("by stage") { config.recompute.push_back({.granularity = RecomputeGranularity::full}); }
  SECTION("by place in the chunk") {
    config.recompute.front() = {
        .granularity = RecomputeGranularity::full, .method = RecomputeMethod::block, .layers = 1};
  }
  SECTION("by microbatch") {
    config.recompute.front().granularity = RecomputeGranularity::full;
    config.recompute.front().store_microbatches.count = 1;
  }
  REQUIRE_FALSE(simulate(make_plan(as_settled(config)), lossy_system()).layer.has_value());
}

TEST_CASE("the same plan gives the same result again", "[simulation]") {
  for (OddRun const& run : odd_runs()) {
    Simulation const first = simulate(make_plan(as_settled(run.config)), lossy_system());
    Simulation const second = simulate(make_plan(as_settled(run.config)), lossy_system());
    REQUIRE(first.iteration == second.iteration);
    REQUIRE(first.mfu == second.mfu);
    for (std::size_t i = 0; i < first.stages.size(); ++i) {
      REQUIRE(first.stages[i].at_peak == second.stages[i].at_peak);
      REQUIRE(first.stages[i].peak_at == second.stages[i].peak_at);
      REQUIRE(first.stages[i].busy == second.stages[i].busy);
    }
  }
}

TEST_CASE("a slower machine is never faster", "[simulation]") {
  for (OddRun const& run : odd_runs()) {
    TrainingPlan const plan = make_plan(as_settled(run.config));
    SimTime const base = simulate(plan, lossy_system()).iteration;
    auto const worse = [&](auto change) {
      System system = lossy_system();
      change(system);
      return simulate(plan, system).iteration;
    };
    CAPTURE(run.name);
    REQUIRE(worse([](System& s) { s.accelerator.bandwidth.value.value /= 2; }) > base);
    REQUIRE(worse([](System& s) { s.calibration.gemm_efficiency.value /= 2; }) > base);
    REQUIRE(worse([](System& s) { s.calibration.kernel_launch.value.value *= 2; }) > base);
    REQUIRE(worse([](System& s) { s.network.bandwidth.value.value /= 2; }) >= base);
    REQUIRE(worse([](System& s) { s.node.all_reduce.value.bandwidth.value /= 2; }) >= base);
    REQUIRE(worse([](System& s) { s.calibration.p2p_synchronisation.value.value *= 2; }) >= base);
  }
}

TEST_CASE("no iteration is shorter than its FLOPs at peak", "[simulation]") {
  for (OddRun const& run : odd_runs()) {
    Simulation const result = simulate(make_plan(as_settled(run.config)), invented_system());
    CAPTURE(run.name);
    REQUIRE(result.hfu <= 1);
    REQUIRE(result.hfu > 0);
  }
}

}  // namespace
}  // namespace stagecraft::simulation_test
