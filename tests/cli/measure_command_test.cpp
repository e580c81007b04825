#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::measure_command_test {
namespace {

using Catch::Contains;
using nlohmann::json;

constexpr char const* small_run =
    "model: {layers: 4, hidden: 64, heads: 4, sequence: 64, vocabulary: 256, precision: fp32}\n"
    "system: " STAGECRAFT_SOURCE_DIR
    "/configs/systems/selene-a100.yaml\n"
    "parallel: {tensor: 2, pipeline: 2, sequence: true}\n"
    "batch: {global: 4, micro: 1}\nrecompute: selective\n";

TEST_CASE("measure layer --json has table 4's five cases beside what simulate predicts of each") {
  TemporaryFolder const folder;
  std::string const path = folder.write("run.yaml", small_run);
  ProgramResult const result = run_stagecraft_exec("measure layer " + path + " --repeats 3 --json");
  REQUIRE(result.exit_code == 0);
  json const document = json::parse(result.output);
  REQUIRE(document.at("schema") == "stagecraft.layer/1");
  REQUIRE(document.at("repeats") == 3);
  REQUIRE(document.at("device").is_string());
  json const& rows = document.at("rows");
  struct Case {
    std::string name, sequence, recompute;
  };
  std::vector<Case> const cases{{"baseline", "false", "none"},
                                {"sequence", "true", "none"},
                                {"full", "false", "full"},
                                {"selective", "false", "selective"},
                                {"selective_sequence", "true", "selective"}};
  REQUIRE(rows.size() == cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    json const& row = rows[i];
    CAPTURE(row);
    REQUIRE(row.at("case") == cases[i].name);
    json const simulated =
        json_of("simulate " + path + " --json --set parallel.sequence=" + cases[i].sequence +
                " --set recompute=" + cases[i].recompute);
    json const& layer = simulated.at("layer");
    REQUIRE(row.at("plan") == simulated.at("plan"));
    REQUIRE(row.at("predicted_forward_seconds") == layer.at("forward_seconds"));
    REQUIRE(row.at("predicted_backward_seconds").get<double>() ==
            Approx(layer.at("backward_seconds").get<double>() +
                   layer.at("recompute_seconds").get<double>()));
    REQUIRE(row.at("same_as").is_null());
    REQUIRE(row.at("predicted_saved_bytes") == layer.at("saved_bytes"));
    REQUIRE(row.at("saved_bytes") == layer.at("saved_bytes"));
    REQUIRE(row.at("forward_seconds").get<double>() > 0);
    REQUIRE(row.at("backward_seconds").get<double>() > 0);
    REQUIRE(row.at("published_forward_seconds").is_null());
  }
  REQUIRE(rows[0].at("overhead_percent") == 0);
  REQUIRE(rows[2].at("backward_seconds").get<double>() >
          rows[0].at("backward_seconds").get<double>());
}

TEST_CASE("measure layer prints a table, and with --print-config the run file") {
  TemporaryFolder const folder;
  std::string const path = folder.write("run.yaml", small_run);
  ProgramResult const table =
      run_stagecraft_exec("measure layer " + path + " --repeats 1 --blas-threads 2");
  REQUIRE(table.exit_code == 0);
  REQUIRE_THAT(table.output,
               Contains("selective_sequence") && Contains("kept MiB") && !Contains("A100  "));
  REQUIRE_THAT(run_stagecraft_exec("measure layer " + path + " --print-config").output,
               Contains("hidden: 64"));
}

TEST_CASE(
    "measure layer with one tensor rank measures once what sequence parallelism leaves alone") {
  TemporaryFolder const folder;
  std::string const command = "measure layer " + folder.write("run.yaml", small_run) +
                              " --set parallel.tensor=1 --repeats 2";
  json const rows = json::parse(run_stagecraft_exec(command + " --json").output).at("rows");
  REQUIRE(rows.size() == 5);
  REQUIRE(rows[0].at("same_as").is_null());
  REQUIRE(rows[1].at("same_as") == "baseline");
  REQUIRE(rows[2].at("same_as").is_null());
  REQUIRE(rows[3].at("same_as").is_null());
  REQUIRE(rows[4].at("same_as") == "selective");
  for (char const* const measured : {"forward_seconds", "backward_seconds", "spread_percent"}) {
    REQUIRE(rows[1].at(measured) == rows[0].at(measured));
    REQUIRE(rows[4].at(measured) == rows[3].at(measured));
  }
  REQUIRE_THAT(run_stagecraft_exec(command).output,
               Contains("with tensor 1: sequence is baseline, selective_sequence is selective"));
}

TEST_CASE("measure refuses what it cannot measure with exit code 2") {
  TemporaryFolder const folder;
  folder.write("run.yaml", small_run);
  auto const [arguments, part] = GENERATE(table<std::string, std::string>(
      {{"", "what to measure: missing; accepted: layer"},
       {"network run.yaml", "found 'network'; accepted: layer"},
       {"layer", "CONFIG: found no file"},
       {"layer run.yaml --repeats 0", "--repeats: found '0'"},
       {"layer run.yaml --backend tpu", "--backend: found 'tpu'; accepted: auto, cpu, cuda"},
       {"layer run.yaml --set parallel.tensor=3", "parallel.tensor: found '3'"}}));
  CAPTURE(arguments);
  ProgramResult const result =
      run_stagecraft_exec("measure " + arguments, "cd " + folder.path().string() + " &&");
  REQUIRE(result.exit_code == 2);
  REQUIRE_THAT(result.errors, Contains(part));
  REQUIRE(result.output.empty());
}

}  // namespace
}  // namespace stagecraft::measure_command_test
