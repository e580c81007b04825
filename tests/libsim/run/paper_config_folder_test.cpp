#include "libsim/run/paper_config_folder.hpp"

#include <array>
#include <catch2/catch.hpp>

namespace stagecraft::paper_config_folder_test {
namespace {

using Catch::Contains;
using std::filesystem::path;

TEST_CASE("a program of the build folder finds the paper's run files in the source", "[run]") {
  REQUIRE(paper_config_folder() == path{STAGECRAFT_SOURCE_DIR} / "configs" / "paper");
}

TEST_CASE("the first folder that is there wins, and a file is none", "[run]") {
  path const source = STAGECRAFT_SOURCE_DIR;
  REQUIRE(first_folder(std::array{source / "no-such-folder", source / "CMakeLists.txt",
                                  source / "configs", source}) == source / "configs");
}

TEST_CASE("where no folder is there, the error names every place that was looked at", "[run]") {
  REQUIRE_THROWS_WITH(
      first_folder(std::array{path{"/no-such-a"}, path{"/no-such-b"}}),
      Contains("the configurations") && Contains("\n  /no-such-a") && Contains("\n  /no-such-b"));
}

}  // namespace
}  // namespace stagecraft::paper_config_folder_test
