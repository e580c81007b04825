#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/cli/trace_folder.hpp"

namespace stagecraft::allocator_command_test {
namespace {

using Catch::Contains;
using nlohmann::json;

std::string const recorded =
    "'" + std::string{STAGECRAFT_SOURCE_DIR} + "/tests/oracle/allocator/meg5.txt.gz'";

}  // namespace

TEST_CASE("allocator prints what PyTorch's allocator answered, and ends with 3 if it died",
          "[cli]") {
  // From tests/oracle/allocator/golden.json.gz: meg5 with default settings and no limit.
  json const lived = json_of("allocator " + recorded + " --json");
  REQUIRE(lived.at("schema") == "stagecraft.allocation/1");
  REQUIRE(lived.at("oom_at").is_null());
  REQUIRE(lived.at("end").at("n") == 4636);
  REQUIRE(lived.at("checkpoints").size() == 3);
  ProgramResult const died =
      run_stagecraft("allocator " + recorded + " --capacity 15.55GiB --json");
  REQUIRE(died.exit_code == 3);
  REQUIRE(json::parse(died.output).at("oom_at") == json::parse(died.output).at("end").at("n"));
  REQUIRE(run_stagecraft("allocator " + recorded +
                         " --capacity 15.55GiB --settings expandable_segments:True")
              .exit_code == 0);
}

TEST_CASE("allocator reads the snapshots that export writes, and finds the peak of the simulation",
          "[cli]") {
  TraceFolder folder;
  folder.record("t.h5", "22b-present");
  std::string const snapshot = folder.path("t.pickle");
  REQUIRE(
      run_stagecraft("export " + folder.path("t.h5") + " --format memory-snapshot -o " + snapshot)
          .exit_code == 0);
  json const stage = json_of("simulate " + paper_run("22b-present") + " --json").at("stages").at(0);
  // The driver's pool counts what is live and nothing else.
  json const result =
      json_of("allocator " + snapshot + " --settings backend:cudaMallocAsync --json");
  REQUIRE(result.at("end").at("peak_allocated") == stage.at("peak_bytes"));
  std::string const hostile = folder.path("h.pickle");
  folder.write("h.pickle",
               "\x80\x02"
               "cos\nsystem\n.");
  require_refusal("allocator " + hostile, {"h.pickle: byte 2: found the opcode GLOBAL"});
  require_refusal("allocator " + snapshot + " --device 1", {"device 1 has no events; accepted: 0"});
}

TEST_CASE("allocator refuses wrong sequences, settings and capacities", "[cli]") {
  TemporaryFolder const folder;
  std::string const bad = "'" + folder.write("bad.txt", "a 1 512\nf 2\n") + "'";
  require_refusal("allocator " + bad, {"bad.txt:2: found ID 2"});
  require_refusal("allocator " + recorded + " --settings max_split_size_mb:1",
                  {"--settings: max_split_size_mb: found '1'", "from 20"});
  require_refusal("allocator " + recorded + " --capacity 80", {"--capacity: found '80'", "GiB"});
  require_refusal("allocator", {"FILE: found no file; accepted: one"});
  require_refusal("allocator no-such-file", {"no-such-file: found a file that cannot be opened"});
}

}  // namespace stagecraft::allocator_command_test
