#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/executor/communication_costs.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/recorded.hpp"

namespace stagecraft::trace_test {
namespace {

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
}  // namespace stagecraft::trace_test
