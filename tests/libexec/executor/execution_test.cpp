#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/paper/row_comparison.hpp"
#include "libsim/trace/trace_names.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/run_checks.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/recorded.hpp"

namespace stagecraft::execution_test {
namespace {

/// Settings that change how requests are rounded, placed and split.
std::string settings_of(std::size_t i) {
  constexpr std::array texts{"", "expandable_segments:True", "roundup_power2_divisions:4",
                             "max_split_size_mb:20"};
  return texts[i % texts.size()];
}

/// A vocabulary whose logits take more than 1 MiB, so that the pool of large blocks is used.
TrainingConfig with_large_buffers(TrainingConfig config) {
  config.model.vocabulary = 32768;
  return config;
}

TEST_CASE(
    "an allocator that serves the executor's requests reserves what the simulator predicts, "
    "to the byte after each of them, on more than 100 plans",
    "[memory][long]") {
  std::vector<NamedRun> grid = plan_grid();
  REQUIRE(grid.size() >= 100);
  std::int64_t most = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    CAPTURE(grid[i].name);
    TrainingConfig config = completed(grid[i].config);
    if (i % 8 == 0) config = with_large_buffers(config);
    config.memory.allocator_settings = settings_of(i);
    TrainingPlan const plan = make_plan(as_settled(config));
    RecordOptions how;
    how.detail = TraceDetail::op;
    Trace const predicted = recorded(plan, invented_system(), how);
    SmallRun run{.gemm = GemmKind::openblas};
    run.options.traces = true;
    run.options.models_allocator = true;
    run.options.steps = i % 3 == 0 ? 2 : 1;  // it makes no difference which iteration is traced
    Execution const executed = execute(config, run);
    for (RankTrace const& rank : executed.traces) {
      CAPTURE(rank.rank, rank.stage);
      RankTrace const& stage = predicted.ranks[static_cast<std::size_t>(rank.stage)];
      REQUIRE(rank.memory.reserved.size() == rank.memory.rows());
      REQUIRE(stage.memory.reserved.size() == stage.memory.rows());
      TraceNames const names = TraceVocabulary{plan}.names();
      RowComparison const rows = compare_rows(stage, names, rank, names);
      INFO((rows.memory ? rows.memory->what : ""));
      REQUIRE(!rows.memory);
      std::int64_t const peak = std::ranges::max(rank.memory.reserved);
      REQUIRE(std::ranges::max(stage.memory.reserved) == peak);
      REQUIRE(peak % (std::int64_t{2} << 20) == 0);  // whole segments
      most = std::max(most, peak);
    }
  }
  REQUIRE(most > std::int64_t{20} << 20);  // segments of large blocks were among them
}

TEST_CASE("no buffer of a pass outlives the last op that is given its address", "[memory]") {
  for (NamedRun const& run : plan_grid()) {
    CAPTURE(run.name);
    SmallRun how{.gemm = GemmKind::openblas};
    how.options.checks_lifetimes = true;
    for (RankReport const& rank : execute(run.config, how).ranks) {
      for (LateRelease const& late : rank.late) {
        UNSCOPED_INFO("rank " << rank.rank.value() << ": " << to_string(late.label) << " after "
                              << late.op << ", " << late.ops << " ops late");
      }
      CHECK(rank.late.empty());
    }
  }
}

TEST_CASE("in virtual time collectives take their duration, in every iteration anew", "[clock]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel.tensor = 4;
  config.parallel.sequence = GENERATE(false, true);
  DearCommunication const costs;
  SmallRun run{.costs = &costs};
  run.options.steps = 3;
  run.options.is_virtual = true;
  double const expected = collectives_in_a_row(make_plan(as_settled(config)));
  REQUIRE(expected > 50);
  for (StepReport const& step : execute(config, run).steps) {
    REQUIRE(step.seconds == Approx(expected).margin(0.5));
  }
}

TEST_CASE("in virtual time blocking messages take theirs, as the simulator's do", "[clock]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel.pipeline = 2;
  DearCommunication const costs;
  SmallRun run{.costs = &costs};
  run.options.steps = 2;
  run.options.is_virtual = true;
  // 1F1B with p = 2 and n = 4 is (n + 1) exchanges of x beside the computation, and the reduction
  // of the tied embedding and of the norm: megatron-semantics.md, section 1.2; x is 3 s.
  for (StepReport const& step : execute(config, run).steps) {
    REQUIRE(step.seconds == Approx(5 * 3.0 + 2).margin(0.5));
  }
}

using Catch::Contains;

TrainingConfig eight_ranks() {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true};
  return config;
}

/// The message that a run ends with; fails the test where it goes on for more than 10 seconds.
std::string end_of(TrainingConfig const& config, SmallRun const& run) {
  auto const begin = std::chrono::steady_clock::now();
  std::string message;
  try {
    execute(config, run);
    FAIL("the run went on");
  } catch (std::exception const& error) {
    message = error.what();
  }
  REQUIRE(std::chrono::steady_clock::now() - begin < std::chrono::seconds{10});
  return message;
}

TEST_CASE("a rank that throws in the middle of an iteration ends all, with its place", "[faults]") {
  SmallRun run;
  run.options.steps = 3;
  Name const where = GENERATE(Name{"core_attention", "softmax"}, Name{"mlp.up", "weight_gradient"},
                              Name{"head.logits", "forward"});
  run.options.on_op = [&](RankContext const& context, Op const& op, KernelCall const&) {
    bool const is_there = context.place.tensor == 1 && context.place.data == 1 &&
                          context.state.step == 1 && op.name == where;
    if (is_there) throw std::runtime_error{"the memory has burnt"};
  };
  std::string const message = end_of(eight_ranks(), run);
  REQUIRE_THAT(message, Contains("rank ") && Contains("(stage ") && Contains("of microbatch 0") &&
                            Contains("the memory has burnt"));
}

TEST_CASE("a rank that throws before it starts ends all", "[faults]") {
  SmallRun run;
  run.options.before_first = [](RankContext const& context, RankExecutor&) {
    if (context.rank == RankId{5}) throw std::runtime_error{"no such device"};
  };
  REQUIRE_THAT(end_of(eight_ranks(), run),
               Contains("rank 5 (stage 1)") && Contains("no such device"));
}

TEST_CASE("a rank whose memory does not suffice says at which op, for which tensor", "[faults]") {
  TrainingConfig const config = eight_ranks();
  Execution const enough = execute(config);
  SmallRun run;
  run.options.memory_limit = Bytes{enough.ranks.front().at_peak.sum() - 1};
  REQUIRE_THAT(end_of(config, run), Contains("rank ") && Contains("before ") &&
                                        Contains("does not fit") && Contains("of microbatch"));
  run.options.memory_limit = Bytes{enough.ranks.front().at_peak.sum()};
  REQUIRE(execute(config, run).ranks.size() == 8);
}

TEST_CASE("what is counted is what the simulator predicts, to the byte, on more than 100 plans",
          "[memory]") {
  std::vector<NamedRun> const grid = plan_grid();
  REQUIRE(grid.size() >= 100);
  for (NamedRun const& run : grid) {
    CAPTURE(run.name);
    TrainingPlan const plan = make_plan(as_settled(completed(run.config)));
    Simulation const predicted = simulate(plan, invented_system());
    Execution const counted = execute(run.config, {.gemm = GemmKind::openblas});
    REQUIRE(counted.ranks.size() == static_cast<std::size_t>(world_size(run.config.parallel)));
    for (RankReport const& rank : counted.ranks) {
      StageResult const& stage = predicted.stages[rank.stage.index()];
      CAPTURE(rank.rank.value(), rank.stage.value());
      for (int i = 0; i < category_count; ++i) {
        auto const category = static_cast<Category>(i);
        CAPTURE(name_of(category));
        if (category != Category::workspace) {
          CHECK(rank.at_peak[category] == stage.at_peak[category]);
        }
      }
      CHECK(rank.activation_peak == stage.activation_peak);
    }
  }
}

/// The largest sum without workspace.
std::int64_t peak_of(MemoryColumns const& memory) {
  std::int64_t peak = 0;
  for (std::size_t row = 0; row < memory.rows(); ++row) {
    std::int64_t sum = -memory.of(Category::workspace)[row];
    for (TraceColumn const& column : memory.bytes) sum += column[row];
    peak = std::max(peak, sum);
  }
  return peak;
}

TEST_CASE("an executed trace has the rows of the simulated one, at either detail", "[trace]") {
  auto const detail = GENERATE(TraceDetail::chunk, TraceDetail::op);
  TrainingConfig base = small_gpt(Precision::fp32);
  base.recompute = {all_policies()[1].policy};
  std::vector<NamedRun> runs = layouts_of(base);
  for (NamedRun& run : split_layouts_of(base)) runs.push_back(std::move(run));
  for (NamedRun const& run : runs) {
    CAPTURE(run.name);
    TrainingPlan const plan = make_plan(as_settled(completed(run.config)));
    RecordOptions how;
    how.detail = detail;
    Trace const simulated = recorded(plan, invented_system(), how);
    FreeCommunication const costs;
    SmallRun how_executed{.costs = &costs};
    how_executed.options.traces = true;
    how_executed.options.detail = detail;
    how_executed.options.is_virtual = GENERATE(false, true);
    for (RankTrace const& rank : execute(run.config, how_executed).traces) {
      CAPTURE(rank.rank);
      RankTrace const& stage = simulated.ranks[static_cast<std::size_t>(rank.stage)];
      for (OpColumn const& column : op_columns) {
        CAPTURE(column.name);
        if (column.unit != "ps") REQUIRE(rank.ops.*column.column == stage.ops.*column.column);
      }
      REQUIRE(peak_of(rank.memory) == peak_of(stage.memory));
    }
  }
}

TEST_CASE("at chunk detail memory has no more rows than the simulator keeps", "[trace]") {
  TrainingConfig const config = small_gpt(Precision::fp32);
  RecordOptions how;
  Trace const simulated = recorded(make_plan(as_settled(config)), invented_system(), how);
  SmallRun executed;
  executed.options.traces = true;
  executed.options.detail = TraceDetail::chunk;
  MemoryColumns const counted = execute(config, executed).traces.front().memory;
  MemoryColumns const& predicted = simulated.ranks.front().memory;
  REQUIRE(counted.rows() == predicted.rows());
  for (std::size_t i = 0; i < category_count; ++i) {
    if (static_cast<Category>(i) == Category::workspace) continue;
    REQUIRE(counted.bytes[i] == predicted.bytes[i]);
  }
}

}  // namespace

}  // namespace stagecraft::execution_test
