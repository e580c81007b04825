#include <catch2/catch.hpp>
#include <iomanip>
#include <sstream>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::executed_reproduction_test {
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
  REQUIRE(has_note(notes.at("table5_twins"), "predicted for NVIDIA A100", "need not agree"));
  // A column without a number is left out, and a twin's error is the prediction's.
  std::string const text =
      run_stagecraft("reproduce table5 --executed " + folder.path().string()).output;
  std::size_t const twins = text.find("table5_twins");
  REQUIRE_THAT(text.substr(0, twins), !Contains("  executed"));
  REQUIRE_THAT(text.substr(twins), Contains("predicted  executed"));
  double const error = 100 * (twin.at("predicted").get<double>() / seconds - 1);
  std::ostringstream shown;
  shown << std::showpos << std::fixed << std::setprecision(2) << error << " %\n";
  REQUIRE_THAT(text.substr(twins), Contains(shown.str()));
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
  REQUIRE_THAT(text.output, Contains("executed") && Contains("250.00"));
  // What is missing and why is one line, without fingerprints.
  REQUIRE_THAT(text.output,
               Contains("\nnot executed: 22B baseline, 22B sequence, 22B selective, "
                        "22B selective_sequence (no file of the folder is of their plans, on 8 "
                        "ranks)\n"));
  REQUIRE_THAT(text.output, !Contains("plan "));
}

TEST_CASE("reproduce --executed composes an iteration of ranks alone, of whole chunks only") {
  TemporaryFolder const folder;
  std::string const trace = (folder.path() / "solo.h5").string();
  auto const reproduced_with = [&](std::string const& detail) {
    REQUIRE(run_stagecraft_exec("run " + paper_run("22b-full-twin") +
                                " --ranks solo --rank 3 --trace " + trace + " --detail " + detail)
                .exit_code == 0);
    return json_of("reproduce table5 --json --executed " + folder.path().string());
  };
  auto const iteration_in = [](json const& result) {
    return row_of(result.at("table5_twins"), "22B twin", "full", "iteration_seconds")
        .at("executed");
  };
  json const by_op = reproduced_with("op");
  REQUIRE(iteration_in(by_op).is_null());
  REQUIRE(has_note(by_op.at("executed").at("table5_twins"),
                   "22b-full-twin.yaml: stage 0 executed alone", "no iteration composed"));
  json const memory = row_of(by_op.at("table5_memory"), "22B twin", "full", "peak_bytes");
  REQUIRE(memory.at("executed") == memory.at("predicted"));
  json const by_chunk = reproduced_with("chunk");
  REQUIRE(iteration_in(by_chunk) > 0);
  REQUIRE(has_note(by_chunk.at("executed").at("table5_twins"),
                   "22b-full-twin.yaml: stage 0 executed alone", "the iteration composed of"));
}

TEST_CASE("reproduce --executed names what lies in the folder and stands in no row") {
  TemporaryFolder const folder;
  auto const in_folder = [&](std::string const& name) { return (folder.path() / name).string(); };
  auto const layers_of = [](std::string const& plan) {
    json const row{{"plan", plan}, {"forward_seconds", 1}, {"backward_seconds", 2}};
    return json{{"schema", "stagecraft.layer/1"}, {"device", "a device"}, {"rows", {row}}}.dump();
  };
  folder.write("own.json", layers_of(plan_of("22b-present")));
  REQUIRE(run_stagecraft_exec("run " + paper_run("22b-present-twin") +
                              " --set batch.global=8 --clock virtual --detail chunk --trace " +
                              in_folder("stray.h5"))
              .exit_code == 0);
  REQUIRE(run_stagecraft("simulate " + paper_run("22b-present") + " --trace " +
                         in_folder("simulated.h5"))
              .exit_code == 0);
  std::string const sweep = folder.write("sweep.yaml", "base: " STAGECRAFT_SOURCE_DIR
                                                       "/configs/paper/22b-present.yaml\n"
                                                       "values: {recompute: [none, full]}\n");
  REQUIRE(run_stagecraft("sweep " + sweep + " -o " + in_folder("sweep.h5")).exit_code == 0);
  std::string const command = "reproduce --json --executed " + folder.path().string();
  for (std::string const tables : {" table4", " table4 table5", " table5"}) {
    CAPTURE(tables);
    json const notes = json_of(command + tables).at("executed");
    json const& unused = notes.at(tables == " table4" ? "table4" : "table5");
    REQUIRE(has_note(unused, tables == " table5" ? "2 exec" : "1 executed result matches no row: ",
                     in_folder("stray.h5")));
    REQUIRE(has_note(unused, "1 trace is of a simulation: ", in_folder("simulated.h5")));
    REQUIRE(has_note(unused, "1 HDF5 file is not a trace: ", in_folder("sweep.h5")));
  }
  for (int i = 0; i < 5; ++i) {
    folder.write("x" + std::to_string(i) + ".json", layers_of(std::string(64, '0')));
  }
  REQUIRE(has_note(json_of(command + " table4").at("executed").at("table4"),
                   "6 executed results match no row: ", "x2.json and 2 more"));
}

TEST_CASE("reproduce --executed is refused where no table has executed numbers") {
  require_refusal("reproduce figure1 table2 --executed .",
                  {"--executed: found with figure1, table2; accepted: with table4, table5 or all"});
}

TEST_CASE("reproduce --executed refuses a folder that is not there and names damaged files") {
  require_refusal("reproduce table5 --executed /nowhere", {"/nowhere"});
  TemporaryFolder const folder;
  std::string const broken = folder.write("broken.h5", "no HDF5");
  std::string const text = folder.write("broken.json", "{");
  json const result = json_of("reproduce table5 --json --executed " + folder.path().string());
  json const& notes = result.at("executed").at("table5");
  REQUIRE(has_note(notes, "2 files cannot be read: " + broken + ": is not an HDF5 file", text));
}

}  // namespace
}  // namespace stagecraft::executed_reproduction_test
