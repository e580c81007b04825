#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "libexec/executor/executable.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/trace/trace_names.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

// Units whose ranks share parameters, gathered, reduced and updated with real numbers.

namespace stagecraft::sharded_units_test {
namespace {

/// `data` ranks, whose heads and words do not divide into equal shards.
TrainingConfig sharded(Precision precision, int data, int microbatches) {
  TrainingConfig config = small_llama(precision);
  config.parallel.data = data;
  config.batch.global = config.batch.micro * data * microbatches;
  config.sharding = default_sharding(ShardingKind::fsdp2);
  if (precision == Precision::fp64) config.sharding.reduce_dtype = UnitType::automatic;
  return config;
}

TrainingConfig whole(TrainingConfig config) {
  config.sharding = {};
  return config;
}

/// When units gather, free and reduce.
std::vector<TrainingConfig> policies(Precision precision, int data) {
  std::vector<TrainingConfig> all;
  auto const add = [&](int microbatches, auto change) {
    TrainingConfig config = sharded(precision, data, microbatches);
    change(config);
    all.push_back(config);
  };
  using C = TrainingConfig;
  add(1, [](C&) {});
  add(3, [](C&) {});
  add(5, [](C& c) { c.recompute.front().granularity = RecomputeGranularity::full; });
  add(4, [](C& c) { c.sharding.sync = UnitSync::every; });
  add(3, [](C& c) { c.sharding.reshard_after_forward.kind = Reshard::Kind::no; });
  add(3, [](C& c) { c.sharding.reshard_after_forward.kind = Reshard::Kind::yes; });
  add(4, [](C& c) {
    c.sharding.reshard_after_forward.kind = Reshard::Kind::no;
    c.sharding.reshard_after_backward = false;
  });
  return all;
}

TEST_CASE("a rank that shards its parameters with nobody has the bits of one that does not",
          "[units]") {
  for (Precision const precision : {Precision::fp32, Precision::fp64}) {
    TrainingConfig const config = sharded(precision, 1, 1);
    require_same_bits(config, whole(config));
    // Biases, position embeddings and norms with a mean.
    TrainingConfig gpt = small_gpt(precision);
    gpt.model.tied_embeddings = false;
    gpt.batch.global = gpt.batch.micro;
    TrainingConfig gpt_units = gpt;
    gpt_units.sharding = config.sharding;
    require_same_bits(gpt_units, gpt);
  }
}

TEST_CASE("ranks that share the parameters of units train as those that do not", "[units]") {
  for (int const data : {1, 2, 3}) {
    CAPTURE(data);
    for (TrainingConfig const& config : policies(Precision::fp64, data)) {
      CAPTURE(config.batch.global, config.sharding.reshard_after_backward);
      require_close(whole(config), config, 1e-11);
      require_alike_steps(whole(config), config);
    }
  }
}

TEST_CASE("copies of shards train as ranks that share nothing", "[units]") {
  TrainingConfig config = sharded(Precision::fp64, 4, 2);
  config.sharding.group = 2;
  require_close(whole(config), config, 1e-11);
  require_alike_steps(whole(config), config);
}

/// Reductions of units are dear, and all else is free.
class DearReductions : public CommunicationCosts {
 public:
  SimTime collective(Op const& op) const override {
    bool const reduces = op.kind == OpKind::reduce_scatter || op.stream == Stream::sum_over_copies;
    return reduces ? std::chrono::seconds{1} : SimTime{0};
  }
  MessageCost message(StageId /*from*/, StageId /*to*/) const override { return {}; }
};

TEST_CASE("while a sum over copies waits for its shard, the rank computes", "[units]") {
  TrainingConfig config = sharded(Precision::fp32, 4, 1);
  config.sharding.group = 2;
  TrainingPlan const plan = make_plan(as_settled(config));
  ExecutionOptions options;
  options.traces = true;
  Execution const alone = execute_alone(plan, RankId{0}, DearReductions{}, options);
  TraceNames const names = TraceVocabulary{plan}.names();
  OpColumns const& ops = alone.traces.front().ops;
  auto const name = [&](std::size_t row) {
    return names.op[static_cast<std::size_t>(ops.op[row])];
  };
  auto const end = [&](std::size_t row) { return ops.start[row] + ops.duration[row]; };
  int followed = 0;
  bool computes = false;  // between the beginning and the end of a reduction
  for (std::size_t row = 0; row + 1 < ops.rows(); ++row) {
    if (!name(row).ends_with(".reduce_scatter")) continue;
    if (name(row + 1).ends_with(".all_reduce")) {
      ++followed;
      CHECK(ops.start[row + 1] >= end(row));
    }
    for (std::size_t other = 0; other < ops.rows(); ++other) {
      computes = computes || (ops.flops[other] > 0 && ops.start[other] > ops.start[row] &&
                              ops.start[other] < end(row));
    }
  }
  // That of the embedding, the last, has a wait between.
  REQUIRE(followed == config.model.layers + 1);
  REQUIRE(computes);
}

TEST_CASE("units are shared by ranks that split tensors, sequences or layers, too", "[units]") {
  for (ParallelLayout const& parallel :
       {ParallelLayout{.tensor = 2, .data = 2},
        ParallelLayout{.tensor = 2, .data = 2, .sequence = true},
        ParallelLayout{.data = 2, .context = 2}, ParallelLayout{.pipeline = 2, .data = 2}}) {
    CAPTURE(parallel.tensor, parallel.sequence, parallel.context, parallel.pipeline);
    auto const split = [&](Precision precision) {
      TrainingConfig config = sharded(precision, 2, 2);
      config.parallel = parallel;
      config.model.attention = Attention::flash;  // without it no ranks split sequences
      config.model.attention_dropout = 0;
      return config;
    };
    TrainingConfig const config = split(Precision::fp64);
    require_close(whole(config), config, 1e-11);
    require_alike_steps(whole(config), config);
    require_predicted_bytes(split(Precision::bf16));
  }
}

TEST_CASE("units in 16 bits have the gradients of ranks that share nothing, rounded to 16 bits",
          "[units]") {
  for (int const data : {1, 2}) {
    TrainingConfig const config = sharded(Precision::bf16, data, 2);
    // Half of the last of 8 bits.
    require_close(gradients_of(config), gradients_of(whole(config)), 0x1p-8);
  }
}

TEST_CASE("ranks with sharded units hold what the simulator predicts, to the byte", "[units]") {
  for (Precision const precision : {Precision::bf16, Precision::fp32}) {
    for (int const data : {1, 3}) {
      CAPTURE(data, name_of(precision));
      for (TrainingConfig const& config : policies(precision, data)) {
        CAPTURE(config.batch.global, config.sharding.reshard_after_backward);
        require_predicted_bytes(config);
      }
    }
  }
}

TEST_CASE("units of copies and of tensor ranks are released with their last use", "[units]") {
  for (ParallelLayout const& parallel :
       {ParallelLayout{.data = 4}, ParallelLayout{.tensor = 2, .data = 2}}) {
    TrainingConfig config = sharded(Precision::fp32, parallel.data, 2);
    config.parallel = parallel;
    if (parallel.tensor == 1) config.sharding.group = 2;
    for (RankReport const& rank : execute(config, {.options = {.checks_lifetimes = true}}).ranks) {
      for (LateRelease const& late : rank.late) FAIL_CHECK(to_string(late.label) + late.op);
    }
  }
}

TEST_CASE("the trace of a later iteration with units begins without gradients, as the first does",
          "[units]") {
  for (int const steps : {1, 2}) {
    SmallRun const run{.options = {.steps = steps, .traces = true}};
    MemoryColumns const memory = execute(sharded(Precision::fp32, 2, 1), run).traces.front().memory;
    auto const& gradients = memory.bytes[static_cast<std::size_t>(Category::gradients)];
    CHECK(gradients.front() == 0);
    CHECK(gradients.back() > 0);
  }
}

TEST_CASE("a rank of a larger job with sharded units holds alone what is predicted", "[units]") {
  for (int const data : {4, 64}) {
    TrainingConfig config = sharded(Precision::bf16, data, 2);
    if (data == 64) config.sharding.group = 8;
    TrainingPlan const plan = make_plan(as_settled(config));
    Simulation const predicted = simulate(plan, invented_system());
    for (int const number : {0, data - 1}) {
      CAPTURE(data, number);
      ExecutionOptions options;
      options.steps = 2;
      Execution const alone = execute_alone(plan, RankId{number}, FreeCommunication{}, options);
      RankReport const& report = alone.ranks.front();
      for (int c = 0; c < category_count; ++c) {
        auto const category = static_cast<Category>(c);
        CAPTURE(name_of(category));
        if (category == Category::workspace) continue;
        CHECK(report.at_peak[category] == predicted.stages.front().at_peak[category]);
      }
      for (StepReport const& step : alone.steps) CHECK(std::isfinite(step.gradient_norm));
    }
  }
}

TEST_CASE("a table that two units share, and types in which no kernel sums, are refused",
          "[units]") {
  TrainingConfig config = sharded(Precision::fp32, 2, 1);
  REQUIRE_NOTHROW(require_executable(config));
  for (UnitType Sharding::*type : {&Sharding::reduce_dtype, &Sharding::stored_dtype}) {
    TrainingConfig narrow = config;
    narrow.sharding.*type = UnitType::bf16;
    REQUIRE_THROWS_AS(require_executable(narrow), ConfigError);
  }
  config.model.tied_embeddings = true;
  REQUIRE_THROWS_AS(require_executable(config), ConfigError);
}

}  // namespace
}  // namespace stagecraft::sharded_units_test
