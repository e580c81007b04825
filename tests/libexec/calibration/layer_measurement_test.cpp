#include "libexec/calibration/layer_measurement.hpp"

#include <catch2/catch.hpp>

#include "libexec/backends/cpu_backend.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/executor/communication_costs.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft::layer_measurement_test {
namespace {

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
}  // namespace stagecraft::layer_measurement_test
