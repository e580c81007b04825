#include <catch2/catch.hpp>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/calibration/collective_measurement.hpp"
#include "libexec/calibration/kernel_measurement.hpp"
#include "libexec/calibration/layer_measurement.hpp"
#include "libsim/cost/measured_time.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft::measurement_test {
namespace {

TEST_CASE("a line through exact samples is found", "[calibration]") {
  // 3 us and 2 GB/s.
  std::vector<KernelSample> samples;
  for (double const bytes : {1e3, 1e5, 4e6}) samples.push_back({bytes, 3e-6 + bytes / 2e9});
  KernelCost const cost = fit_kernel(samples);
  REQUIRE(cost.latency.value == Approx(3e-6));
  REQUIRE(cost.bandwidth.value == Approx(2e9));
}

TEST_CASE("no fitted part is negative", "[calibration]") {
  KernelCost const falling = fit_kernel({{1e3, 5e-6}, {1e6, 4e-6}});
  REQUIRE(falling.latency.value > 0);
  REQUIRE(falling.bandwidth.value > 0);
  KernelCost const steep = fit_kernel({{1e6, 1e-6}, {2e6, 4e-6}});
  REQUIRE(steep.latency.value == 0);
  REQUIRE(steep.bandwidth.value > 0);
  KernelCost const single = fit_kernel({{1e6, 1e-3}});
  REQUIRE(single.latency.value + 1e6 / single.bandwidth.value == Approx(1e-3));
}

TEST_CASE("products between the measured shapes are interpolated, others take the nearest rate",
          "[calibration]") {
  MeasuredDevice measured;
  measured.gemm.value[Precision::fp32][GemmForm::nt] = {
      .m = {16, 64}, .n = {64}, .k = {64}, .rates = {{1e9}, {4e9}}};
  auto const seconds = [&](std::int64_t m) {
    Op op;
    op.kind = OpKind::gemm;
    op.type = ElementType::f32;
    op.attributes = GemmAttributes{{.batch = 3, .m = m, .n = 64, .k = 64, .transpose_b = true},
                                   ElementType::f32,
                                   ElementType::f32,
                                   ElementType::f32};
    return measured_time(measured, op)->value;
  };
  double const flops_a_row = 3 * 2.0 * 64 * 64;
  REQUIRE(seconds(16) == Approx(16 * flops_a_row / 1e9));
  REQUIRE(seconds(64) == Approx(64 * flops_a_row / 4e9));
  REQUIRE(seconds(32) == Approx(32 * flops_a_row / 2e9));  // half way in the logarithm
  REQUIRE(seconds(8) == Approx(8 * flops_a_row / 1e9));
  REQUIRE(seconds(1024) == Approx(1024 * flops_a_row / 4e9));
  Op other;
  other.kind = OpKind::gelu;
  REQUIRE_FALSE(measured_time(measured, other).has_value());
}

TEST_CASE("flash attention has a rate of arithmetic, no more than a core can have",
          "[calibration][long]") {
  ExecutionParts parts;
  parts.make_backend = [](KernelNeeds const& needs) { return make_cpu_backend(needs, {}); };
  FlashRates const rates = measure_flash(parts, Precision::fp32);
  // Two fused multiply-adds of 16 lanes a cycle at 6 GHz.
  for (FlopsPerSecond const rate : {rates.forward, rates.backward}) {
    REQUIRE(rate.value > 1e6);
    REQUIRE(rate.value < 4 * 16 * 6e9);
  }
}

TEST_CASE("collectives between threads have a latency and a bandwidth", "[calibration]") {
  SteadyMedians medians;
  CollectiveCost const cost = measure_thread_collective(OpKind::all_reduce, 2, medians);
  REQUIRE(cost.latency.value >= 0);
  REQUIRE(cost.bandwidth.value > 1e6);
}

TEST_CASE("samples that lie far apart are taken again, and a busy machine is named",
          "[calibration]") {
  // Quartiles 40 % apart, then equal: the second round counts.
  std::vector<double> const apart{8e-3, 8e-3, 10e-3, 12e-3, 12e-3};
  std::vector<std::vector<double>> rounds{apart, std::vector<double>(5, 5e-3)};
  std::size_t round = 0;
  SteadyMedians medians;
  REQUIRE(medians.of([&] { return rounds.at(round++); }) == 5e-3);
  REQUIRE(round == 2);
  REQUIRE(medians.busy_text().empty());
  // 40, 20, 40 and 40 %: the closest round counts, and one of two is more than a few.
  rounds = {apart, {18e-3, 18e-3, 20e-3, 22e-3, 22e-3}, apart, apart};
  round = 0;
  REQUIRE(medians.of([&] { return rounds.at(round++); }) == 20e-3);
  REQUIRE(round == 4);
  REQUIRE(medians.busy_text().starts_with("the machine was busy: 1 of 2 measurements"));
  // The clock itself spreads what takes a microsecond.
  int taken = 0;
  REQUIRE(medians.of([&] {
    ++taken;
    return std::vector<double>{1e-6, 2e-6, 3e-6};
  }) == 2e-6);
  REQUIRE(taken == 1);
}

struct Policies {
  RecomputePolicy none{};
  RecomputePolicy selective{.granularity = RecomputeGranularity::selective};
  RecomputePolicy full{.granularity = RecomputeGranularity::full};
};

ExecutionParts parts_with(CommunicationCosts const& costs) {
  return {.make_backend = [](KernelNeeds const& needs) { return make_cpu_backend(needs, {}); },
          .costs = &costs};
}

struct Counted {
  std::int64_t bytes = 0;
  MeasuredLayer::Times times;
};

Counted measure(TrainingConfig const& config, CommunicationCosts const& costs) {
  MeasuredLayer layer{config, parts_with(costs), 1};
  layer.run();
  MeasuredLayer::Times const times = layer.run();
  return {layer.saved().count(), times};
}

TEST_CASE("a layer is counted to keep what table 2 of the paper says", "[layer]") {
  TrainingConfig config = small_gpt(Precision::fp16);
  double const s = 8, b = 2, h = 16, a = 4;
  // Korthikanti et al. 2022, table 2 neglects the norms' statistics: fp32 mean and deviation of
  // each of sb rows, twice.
  double const statistics = 2 * 2 * 4 * s * b;
  Policies const policies;
  for (double const t : {1.0, 2.0, 4.0}) {
    CAPTURE(t);
    config.parallel.tensor = static_cast<int>(t);
    auto const bytes = [&](RecomputePolicy const& policy, bool sequence) {
      config.recompute = {policy};
      config.parallel.sequence = sequence && t > 1;
      return static_cast<double>(measure(config, FreeCommunication{}).bytes);
    };
    REQUIRE(bytes(policies.none, false) ==
            s * b * h * (10 + 24 / t + 5 * a * s / (h * t)) + statistics);
    REQUIRE(bytes(policies.none, true) == s * b * h / t * (34 + 5 * a * s / h) + statistics / t);
    REQUIRE(bytes(policies.selective, false) == s * b * h * (10 + 24 / t) + statistics);
    REQUIRE(bytes(policies.selective, true) == s * b * h * 34 / t + statistics / t);
    REQUIRE(bytes(policies.full, false) == 2 * s * b * h);
  }
}

TEST_CASE("a layer alone pays for the collectives of its case", "[layer]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel.tensor = 4;
  // Shoeybi et al. 2019, section 3: two all-reduces forward, two backward; full recompute runs
  // those of the forward again. A second each.
  auto const seconds = [&](RecomputePolicy const& policy) {
    config.recompute = {policy};
    MeasuredLayer::Times const times = measure(config, DearCommunication{}).times;
    return std::pair{to_seconds(times.forward), to_seconds(times.backward)};
  };
  Policies const policies;
  for (auto const& [policy, backward] :
       {std::pair{policies.none, 2.0}, std::pair{policies.selective, 2.0},
        std::pair{policies.full, 4.0}}) {
    auto const [forward_seconds, backward_seconds] = seconds(policy);
    REQUIRE(forward_seconds == Approx(2).margin(0.2));
    REQUIRE(backward_seconds == Approx(backward).margin(0.2));
  }
}

TEST_CASE("the measured layer is the plan's own", "[layer]") {
  TrainingConfig config = small_gpt(Precision::bf16);
  config.parallel = {.tensor = 2, .pipeline = 2, .interleave = 2, .data = 2, .sequence = true};
  config.schedule.kind = ScheduleKind::interleaved;
  config.recompute = {Policies{}.selective};
  auto const layer_of = [](TrainingPlan const& plan) {
    for (BlockProgram const& block : plan.programs.blocks) {
      if (block.kind == BlockProgram::Kind::layers) return block;
    }
    throw std::logic_error{"no layer"};
  };
  BlockProgram const own = layer_of(make_plan(as_settled(completed(config))));
  BlockProgram const alone =
      layer_of(make_plan(as_settled(one_layer_per_stage(completed(config)))));
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    REQUIRE(alone.ops(pass).size() == own.ops(pass).size());
    for (std::size_t i = 0; i < own.ops(pass).size(); ++i) {
      Op const& a = alone.ops(pass)[i];
      Op const& b = own.ops(pass)[i];
      CAPTURE(to_string(b.name));
      REQUIRE(a.name == b.name);
      REQUIRE(a.traffic == b.traffic);
      REQUIRE(a.payload == b.payload);
      REQUIRE(a.flops == b.flops);
    }
  }
  REQUIRE(saved_bytes(alone) == saved_bytes(own));
}

}  // namespace

}  // namespace stagecraft::measurement_test
