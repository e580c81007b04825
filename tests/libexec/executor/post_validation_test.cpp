#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/recorded.hpp"

namespace stagecraft::post_validation_test {
namespace {

TrainingConfig validated_later(TrainingConfig config) {
  config.schedule.step = StepSync::post_validated;
  return config;
}

/// Schedules of two and four stages; of some also with tensor ranks and with replicas.
std::vector<NamedRun> staged_runs(Precision precision) {
  TrainingConfig const gpt = small_gpt(precision);
  TrainingConfig sharded = small_llama(precision);
  sharded.parallel.tensor = 2;
  TrainingConfig replicated = untied(gpt);
  replicated.parallel.data = 2;
  replicated.batch.global *= 2;
  std::vector<NamedRun> runs;
  for (TrainingConfig const& base : {gpt, sharded, replicated}) {
    std::vector<NamedRun> all = split_layouts_of(base);
    TrainingConfig plain = base;
    plain.parallel.pipeline = 2;
    all.push_back({"1f1b", plain});
    for (NamedRun& run : all) {
      ScheduleKind const kind = run.config.schedule.kind;
      bool const is_one_of_some = kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zbv;
      bool const has_one_rank = base.parallel.tensor == 1 && base.parallel.data == 1;
      if (!has_one_rank && !is_one_of_some) continue;
      run.name += ", tensor " + std::to_string(base.parallel.tensor) + ", data " +
                  std::to_string(base.parallel.data);
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

double first_norm(TrainingConfig const& config) {
  return execute(config).steps.front().gradient_norm;
}

TEST_CASE("a step that is validated later has the bits of one behind a barrier", "[step][long]") {
  Precision const precision = GENERATE(Precision::fp16, Precision::bf16);
  for (NamedRun const& run : staged_runs(precision)) {
    double const norm = first_norm(run.config);
    // Never clipped; always, on every stage; by the norm of all stages, but not by that of the
    // first.
    for (double const clip : {0.0, norm / 100, 0.999 * norm}) {
      CAPTURE(run.name, clip);
      TrainingConfig config = run.config;
      config.training.clip = clip;
      config.training.learning_rate = 1e-2;
      require_same_bits(config, validated_later(config));
    }
  }
}

TEST_CASE("a step that turns out to be skipped changes no parameter", "[step]") {
  for (NamedRun const& run : staged_runs(Precision::fp16)) {
    CAPTURE(run.name);
    TrainingConfig config = run.config;
    config.training.learning_rate = 1e-2;
    config.training.loss_scale = 0x1p40;  // gradients are infinite until it has been halved
    TrainingConfig const later = validated_later(config);
    REQUIRE(execute(later).steps.front().was_skipped);
    std::vector<WholeTensor> const wanted = parameters_after(config, 3);
    std::vector<WholeTensor> const found = parameters_after(later, 3);
    REQUIRE(found.size() == wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) REQUIRE(found[i].values == wanted[i].values);
  }
}

TEST_CASE("a step that is validated later holds and traces what the simulator says", "[step]") {
  for (NamedRun const& run : staged_runs(Precision::bf16)) {
    CAPTURE(run.name);
    TrainingConfig const config = validated_later(run.config);
    TrainingPlan const plan = make_plan(as_settled(completed(config)));
    RecordOptions how;
    how.detail = TraceDetail::op;
    Trace const simulated = recorded(plan, invented_system(), how);
    Simulation const predicted = simulate(plan, invented_system());
    FreeCommunication const costs;
    SmallRun executed{.costs = &costs};
    executed.options.traces = true;
    executed.options.is_virtual = true;
    Execution const execution = execute(config, executed);
    for (RankTrace const& rank : execution.traces) {
      RankTrace const& stage = simulated.ranks[static_cast<std::size_t>(rank.stage)];
      for (OpColumn const& column : op_columns) {
        CAPTURE(rank.rank, column.name);
        if (column.unit != "ps") REQUIRE(rank.ops.*column.column == stage.ops.*column.column);
      }
    }
    for (RankReport const& rank : execution.ranks) {
      StageResult const& stage = predicted.stages[rank.stage.index()];
      REQUIRE(rank.activation_peak == stage.activation_peak);
      REQUIRE(rank.at_peak[Category::optimizer] == stage.at_peak[Category::optimizer]);
    }
  }
}

}  // namespace
}  // namespace stagecraft::post_validation_test
