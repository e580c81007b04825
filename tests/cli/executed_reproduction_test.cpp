#include <catch2/catch.hpp>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft {
namespace {

using Catch::Contains;
using nlohmann::json;

std::string plan_of(std::string const& run, std::string const& overrides = "") {
  return json_of("simulate " + paper_run(run) + " --json " + overrides).at("plan");
}

json row_of(json const& rows,
            std::string const& model,
            std::string const& case_name,
            std::string const& quantity) {
  for (json const& row : rows) {
    if (row.at("model") == model && row.at("case") == case_name && row.at("quantity") == quantity) {
      return row;
    }
  }
  FAIL("no row " << model << ' ' << case_name << ' ' << quantity);
  return {};
}

bool has_note(json const& notes, std::string const& begin, std::string const& part) {
  for (json const& note : notes) {
    std::string const text = note;
    if (text.starts_with(begin) && text.find(part) != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("reproduce --executed puts an executed twin beside its prediction") {
  TemporaryFolder const folder;
  std::string const trace = (folder.path() / "whatever.h5").string();
  REQUIRE(run_stagecraft_exec("run " + paper_run("22b-present-twin") +
                              " --clock virtual --detail chunk --trace " + trace)
              .exit_code == 0);
  json const result = json_of("reproduce table5 --json --executed " + folder.path().string());
  // The trace's own iteration: the end of its last op.
  double const seconds = json_of("compare " + trace + " " + trace + " --json")
                             .at("iteration_seconds")[0]
                             .get<double>();
  json const twin = row_of(result.at("table5_twins"), "22B twin", "present", "iteration_seconds");
  REQUIRE(twin.at("executed").get<double>() == Approx(seconds));
  REQUIRE(twin.at("published").is_null());
  REQUIRE(row_of(result.at("table5_twins"), "22B twin", "full", "iteration_seconds")
              .at("executed")
              .is_null());
  json const memory = row_of(result.at("table5_memory"), "22B twin", "present", "peak_bytes");
  REQUIRE(memory.at("executed") == memory.at("predicted"));
  json const& notes = result.at("executed");
  REQUIRE(has_note(notes.at("table5_twins"), "22b-present-twin.yaml executed on", trace));
  REQUIRE(has_note(notes.at("table5_twins"), "not executed: 22b-full-twin.yaml",
                   plan_of("22b-full-twin")));
  for (char const* const run : {"22b-full", "175b-present", "1t-full"}) {
    REQUIRE(has_note(notes.at("table5"), "not executed: " + std::string{run}, plan_of(run)));
  }
}

TEST_CASE("reproduce --executed takes measured layers by their plan, and names what is missing") {
  TemporaryFolder const folder;
  std::string const plan =
      plan_of("22b-present", "--set recompute=full --set parallel.sequence=false");
  folder.write(
      "layers.json",
      json{{"schema", "stagecraft.layer/1"},
           {"device", "a device"},
           {"rows", {{{"plan", plan}, {"forward_seconds", 0.25}, {"backward_seconds", 0.75}}}}}
          .dump());
  folder.write("other.json", "{\"schema\": \"something else\"}");
  json const result = json_of("reproduce table4 --json --executed " + folder.path().string());
  json const& rows = result.at("table4");
  REQUIRE(row_of(rows, "22B", "full", "forward_seconds").at("executed") == 0.25);
  REQUIRE(row_of(rows, "22B", "full", "backward_seconds").at("executed") == 0.75);
  REQUIRE(row_of(rows, "22B", "sequence", "forward_seconds").at("executed").is_null());
  REQUIRE(row_of(result.at("table4_overheads"), "22B", "full", "overhead_percent")
              .at("executed")
              .is_null());  // there is no baseline
  json const& notes = result.at("executed").at("table4");
  REQUIRE(notes.size() == 5);
  REQUIRE(has_note(notes, "22B full executed on a device", "layers.json"));
  REQUIRE(has_note(notes, "not executed: 22B baseline", "plan "));
  ProgramResult const text =
      run_stagecraft("reproduce table4 --executed " + folder.path().string());
  REQUIRE_THAT(text.output, Contains("executed") && Contains("250.00") && Contains("not executed"));
}

TEST_CASE("reproduce --executed says that a rank alone is no iteration") {
  TemporaryFolder const folder;
  std::string const trace = (folder.path() / "solo.h5").string();
  REQUIRE(run_stagecraft_exec("run " + paper_run("22b-full-twin") +
                              " --ranks solo --rank 3 --trace " + trace)
              .exit_code == 0);
  json const result = json_of("reproduce table5 --json --executed " + folder.path().string());
  REQUIRE(row_of(result.at("table5_twins"), "22B twin", "full", "iteration_seconds")
              .at("executed")
              .is_null());
  REQUIRE(has_note(result.at("executed").at("table5_twins"), "22b-full-twin.yaml: single ranks",
                   "no iteration"));
  json const memory = row_of(result.at("table5_memory"), "22B twin", "full", "peak_bytes");
  REQUIRE(memory.at("executed") == memory.at("predicted"));
}

TEST_CASE("reproduce --executed refuses a folder that is not there and damaged files") {
  require_refusal("reproduce table5 --executed /nowhere", {"/nowhere"});
  TemporaryFolder const folder;
  std::string const broken = folder.write("broken.h5", "no HDF5");
  require_refusal("reproduce table5 --executed " + folder.path().string(), {broken});
  TemporaryFolder const other;
  std::string const text = other.write("broken.json", "{");
  require_refusal("reproduce table5 --executed " + other.path().string(), {text});
}

}  // namespace
}  // namespace stagecraft
