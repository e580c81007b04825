#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.hpp"
#include "tests/cli/trace_folder.hpp"

namespace stagecraft::export_command_test {

using Catch::Contains;
using Catch::StartsWith;

TEST_CASE("export writes the formats that it names, and only of the ranks asked for") {
  TraceFolder folder;
  folder.record("t.h5", "175b-present");
  std::string const trace = folder.path("t.h5");
  REQUIRE(run_stagecraft("export " + trace + " --format chrome -o " + folder.path("t.json"))
              .exit_code == 0);
  auto const json = nlohmann::json::parse(folder.text("t.json"));
  REQUIRE(json.at("otherData").at("device") == "selene-a100");

  ProgramResult const csv =
      run_stagecraft("export " + trace + " --format csv --ranks 3,1 -o " + folder.path("t.csv"));
  REQUIRE(csv.exit_code == 0);
  REQUIRE(csv.output.empty());
  REQUIRE_THAT(folder.text("t.csv"), StartsWith("rank,stage,start_ps,") && Contains("\n1,1,") &&
                                         Contains("\n3,3,") && !Contains("\n0,0,"));
  REQUIRE(run_stagecraft("export " + trace + " --format csv --memory -o " + folder.path("m.csv"))
              .exit_code == 0);
  REQUIRE_THAT(folder.text("m.csv"), StartsWith("rank,stage,time_ps,parameters,"));
}

TEST_CASE("export that cannot write is exit code 1 with the reason, and nothing is left") {
  TraceFolder folder;
  folder.record("t.h5", "22b-present", "--detail op");
  std::string const command = "export " + folder.path("t.h5") + " --format csv -o ";
  ProgramResult const missing = run_stagecraft(command + "/no/such/folder/t.csv");
  REQUIRE(missing.exit_code == 1);
  REQUIRE_THAT(missing.errors,
               Contains("could not write /no/such/folder/t.csv: No such file or directory"));
  ProgramResult const device = run_stagecraft(command + "/dev/full");
  REQUIRE(device.exit_code == 1);
  REQUIRE_THAT(device.errors,
               Contains("could not write /dev/full: it exists and is not a regular file"));
  // A limit on the size of files stands for a full disk.
  ProgramResult const full =
      run_stagecraft(command + folder.path("t.csv"), "ulimit -f 16; trap '' XFSZ;");
  REQUIRE(full.exit_code == 1);
  REQUIRE_THAT(full.errors, Contains("could not write " + folder.path("t.csv") + ": "));
  REQUIRE(folder.files() == 1);
}

TEST_CASE("chakra writes a file for each rank of the job, or none") {
  TraceFolder folder;
  folder.record("t.h5", "175b-present");
  std::string const command =
      "export " + folder.path("t.h5") + " --format chakra -o " + folder.path("et");
  ProgramResult const some = run_stagecraft(command + " --ranks 0,1");
  REQUIRE(some.exit_code == 2);
  REQUIRE_THAT(some.errors, Contains("sends or receives have no other end in these ranks"));
  // Room for the files of the first stage, and not for those of the second (ulimit counts 512
  // bytes).
  ProgramResult const full = run_stagecraft(command, "ulimit -f 380; trap '' XFSZ;");
  REQUIRE(full.exit_code == 1);
  REQUIRE(folder.files() == 1);
  REQUIRE(run_stagecraft(command).exit_code == 0);
  REQUIRE(folder.files() == 1 + 64 + 3);
  REQUIRE(folder.has("et.63.et"));
  REQUIRE(folder.has("et.groups.json"));
  REQUIRE(folder.has("et.network.yml"));
  REQUIRE(folder.has("et.system.json"));
}

TEST_CASE("export of a damaged trace is exit code 2, names the file and leaves nothing") {
  TraceFolder folder;
  folder.record("t.h5", "22b-present");
  std::string const whole = folder.text("t.h5");
  folder.write("cut.h5", whole.substr(0, whole.size() / 2));
  ProgramResult const cut = run_stagecraft("export " + folder.path("cut.h5") +
                                           " --format chrome -o " + folder.path("t.json"));
  REQUIRE(cut.exit_code == 2);
  REQUIRE_THAT(cut.errors, Contains("cut.h5: is cut off"));
  REQUIRE(folder.files() == 2);
}

TEST_CASE("export says what it does not accept") {
  TraceFolder folder;
  folder.record("t.h5", "22b-present");
  std::string const trace = folder.path("t.h5");
  auto const errors = [&](std::string const& arguments) {
    ProgramResult const result = run_stagecraft("export " + arguments);
    REQUIRE(result.exit_code == 2);
    return result.errors;
  };
  REQUIRE_THAT(errors(""), Contains("found no file; accepted: one trace"));
  REQUIRE_THAT(errors(trace + " --format svg -o x"),
               Contains("--format: found 'svg'; accepted: chrome, csv, memory-snapshot, chakra"));
  REQUIRE_THAT(errors(trace + " --format csv"), Contains("--output (-o): missing"));
  REQUIRE_THAT(errors(trace + " --format chrome --memory -o x"),
               Contains("--memory: found with --format chrome; accepted: with csv"));
  REQUIRE_THAT(errors(trace + " --format csv --ranks 1 -o x"),
               Contains("--ranks: found '1'; accepted: ranks of " + trace + ", 0 to 0"));
  REQUIRE_THAT(errors(trace + " --format csv -o " + trace), Contains("which is read"));
  REQUIRE(run_stagecraft("export --help").exit_code == 0);
}

}  // namespace stagecraft::export_command_test
