#include <algorithm>
#include <catch2/catch.hpp>

#include "libsim/plan/make_plan.hpp"
#include "libsim/report/paper/row_comparison.hpp"
#include "libsim/trace/trace_names.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"
#include "tests/libsim/recorded.hpp"

namespace stagecraft::allocator_test {
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

}  // namespace
}  // namespace stagecraft::allocator_test
