#include <catch2/catch.hpp>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::calibrate_command_test {
namespace {

TEST_CASE("stagecraft-exec calibrate refuses what it cannot do") {
  REQUIRE(run_stagecraft_exec("calibrate").exit_code == 2);
  REQUIRE(run_stagecraft_exec("calibrate -o x.yaml --precision fp8").exit_code == 2);
  REQUIRE(run_stagecraft_exec("calibrate -o /nowhere/x.yaml").exit_code == 1);
}

}  // namespace
}  // namespace stagecraft::calibrate_command_test
