#include <catch2/catch.hpp>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft {
namespace {

TEST_CASE("stagecraft-exec calibrate writes a system that simulate takes, with its sources") {
  TemporaryFolder const folder;
  std::string const system = (folder.path() / "here.yaml").string();
  ProgramResult const result = run_stagecraft_exec("calibrate -o " + system);
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  std::string const run = folder.write(
      "run.yaml",
      "model: {layers: 2, hidden: 64, heads: 4, sequence: 64, vocabulary: 256, precision: fp32}\n"
      "system: here.yaml\nbatch: {global: 2, micro: 1}\n");
  ProgramResult const simulated = run_stagecraft("simulate " + run + " --json");
  REQUIRE(simulated.exit_code == 0);
  REQUIRE(nlohmann::json::parse(simulated.output).at("iteration_seconds") > 0);
  ProgramResult const constants = run_stagecraft("system " + system);
  REQUIRE(constants.exit_code == 0);
  REQUIRE_THAT(constants.output, Catch::Contains("measured.kernels.fp32.gelu.bandwidth"));
  REQUIRE_THAT(constants.output, Catch::Contains("stagecraft-exec calibrate"));
}

TEST_CASE("stagecraft-exec calibrate refuses what it cannot do") {
  REQUIRE(run_stagecraft_exec("calibrate").exit_code == 2);
  REQUIRE(run_stagecraft_exec("calibrate -o x.yaml --precision fp8").exit_code == 2);
  REQUIRE(run_stagecraft_exec("calibrate -o /nowhere/x.yaml").exit_code == 1);
}

}  // namespace
}  // namespace stagecraft
