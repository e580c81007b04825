#include <catch2/catch.hpp>

#include "libsim/engine/simulation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/paper/executed_reproduction.hpp"
#include "libsim/report/paper/executed_results.hpp"
#include "libsim/report/paper/paper_tables.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/trace/trace_writer.hpp"
#include "tests/libsim/recorded.hpp"
#include "tests/libsim/trace/sample_trace.hpp"

namespace stagecraft::stages_alone_test {
namespace {

std::filesystem::path const paper_configs = STAGECRAFT_SOURCE_DIR "/configs/paper";

/// Files as `stagecraft-exec run --ranks solo --set batch.global=N` writes them, one for each
/// stage; the times are the simulator's.
void write_stages_alone(TemporaryFolder const& folder,
                        std::string const& file,
                        int sequences,
                        std::vector<std::int32_t> const& stages,
                        TraceDetail detail = TraceDetail::chunk) {
  RunConfig const run = load_run_config(paper_configs / (file + ".yaml"),
                                        {"batch.global=" + std::to_string(sequences)});
  TrainingPlan const plan = make_plan(as_settled(run.training));
  for (std::int32_t const stage : stages) {
    Trace trace = recorded(plan, run.system,
                           {.detail = detail,
                            .stages = {StageId{stage}},
                            .command_line = "a test",
                            .config = to_yaml(run)});
    trace.meta.clock = TraceClock::solo;
    trace.meta.device = "a device";
    write_trace(folder.path() / (file + "-" + std::to_string(stage) + ".h5"), trace);
  }
}

std::vector<Reproduction> tables_with(TemporaryFolder const& folder) {
  std::vector<Reproduction> tables = reproduce_table5(paper_configs);
  add_executed(tables, ExecutedResults{folder.path()}, paper_configs);
  return tables;
}

Reproduction const& table_of(std::vector<Reproduction> const& tables, std::string const& name) {
  for (Reproduction const& table : tables) {
    if (table.name == name) return table;
  }
  throw std::logic_error{"no table " + name};
}

std::string notes_of(Reproduction const& table) {
  std::string text;
  for (std::string const& note : table.notes) text += note + '\n';
  return text;
}

TEST_CASE("table 5 is composed of first, middle and last stage, executed alone and shortened",
          "[report]") {
  TemporaryFolder const folder;
  write_stages_alone(folder, "175b-full", 16, {0, 4, 7});
  write_stages_alone(folder, "22b-present", 8, {0});
  std::vector<Reproduction> const tables = tables_with(folder);
  Reproduction const& table = table_of(tables, "table5");
  int composed = 0;
  for (ReproductionRow const& row : table.rows) {
    bool const is_executed = (row.model == "175B" && row.case_name == "full") ||
                             (row.model == "22B" && row.case_name == "present");
    CAPTURE(row.model, row.case_name);
    REQUIRE(row.executed.has_value() == is_executed);
    if (!is_executed) continue;
    ++composed;
    REQUIRE(*row.executed == Approx(row.predicted).epsilon(1e-9));
  }
  REQUIRE(composed == 2);
  REQUIRE_THAT(notes_of(table),
               Catch::Contains("175b-full.yaml: stages 0, 4, 7 executed alone on a device with 16 "
                               "sequences (") &&
                   Catch::Contains("22b-present.yaml: stage 0 executed alone") &&
                   !Catch::Contains("no row"));
  REQUIRE(table.missing.size() == 6);
  REQUIRE(table.missing.back().what == "1t-present.yaml");
}

TEST_CASE("memory of stages alone stands beside what was predicted of the same iteration",
          "[report]") {
  TemporaryFolder const folder;
  write_stages_alone(folder, "175b-present", 24, {0, 7});
  Reproduction const memory = table_of(tables_with(folder), "table5_memory");
  REQUIRE(memory.rows.size() == 2);
  for (ReproductionRow const& row : memory.rows) REQUIRE(row.executed == row.predicted);
}

TEST_CASE("why no iteration is composed is said", "[report]") {
  TemporaryFolder const folder;
  write_stages_alone(folder, "175b-full", 16, {0, 7});
  write_stages_alone(folder, "22b-full", 8, {0}, TraceDetail::op);
  std::vector<Reproduction> const tables = tables_with(folder);
  for (ReproductionRow const& row : table_of(tables, "table5").rows) REQUIRE_FALSE(row.executed);
  REQUIRE_THAT(
      notes_of(table_of(tables, "table5")),
      Catch::Contains("no iteration composed: stage 1 was not measured") &&
          Catch::Contains("22b-full.yaml: stage 0 executed alone on a device with 8 "
                          "sequences (") &&
          Catch::Contains("), no iteration composed: found a trace without exactly one row"));
}

}  // namespace
}  // namespace stagecraft::stages_alone_test
