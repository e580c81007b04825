#include <catch2/catch.hpp>

#include "tests/cli/run_program.hpp"

namespace stagecraft::version_test {

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

TEST_CASE("stagecraft-exec --version says which libraries it executes with, and which it lacks") {
  ProgramResult const result = run_stagecraft_exec("--version");
  REQUIRE(result.exit_code == 0);
  REQUIRE_THAT(result.output,
               Catch::Matches("stagecraft-exec .*\nbuilt with .*, HDF5 .*, OpenBLAS [0-9.]+[^,]*, "
                              "(CUDA [0-9.]+ with cuBLASLt|without CUDA), "
                              "(NCCL [0-9.]+|without NCCL), (MPI [0-9.]+|without MPI)\n"));
}

}  // namespace stagecraft::version_test
