#include <catch2/catch.hpp>

#include "tests/cli/run_program.hpp"

namespace stagecraft {

TEST_CASE("stagecraft --version says version, commit and what the program was built with") {
  ProgramResult const result = run_stagecraft("--version");
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.errors.empty());
  REQUIRE_THAT(result.output,
               Catch::Matches("stagecraft [0-9]+[.][0-9]+[.][0-9]+ "
                              "[(]commit ([0-9a-f]{12}|unknown)(, modified)?[)]\n"
                              "built with .* (Release|Debug|RelWithDebInfo|MinSizeRel), "
                              "HDF5 1[.][0-9.]+ with deflate\n"));
}

}  // namespace stagecraft
