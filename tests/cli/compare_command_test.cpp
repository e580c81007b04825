#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run_program.hpp"

namespace stagecraft::compare_command_test {

namespace {

using Catch::Contains;

/// Traces of the paper's 22B, simulated once: of one plan on two systems, and of another plan.
class Traces {
 public:
  Traces()
      : folder_{std::filesystem::temp_directory_path() /
                ("stagecraft-compare-" + std::to_string(getpid()))} {
    std::filesystem::create_directory(folder_);
    record("selene", "");
    record("h100", " --set 'system=" STAGECRAFT_SOURCE_DIR "/configs/systems/dgx-h100.yaml'");
    record("full", " --set recompute=full");
    std::ofstream{folder_ / "text.h5"} << "no trace\n";
  }
  Traces(Traces const&) = delete;
  Traces(Traces&&) = delete;
  Traces& operator=(Traces const&) = delete;
  Traces& operator=(Traces&&) = delete;
  ~Traces() { std::filesystem::remove_all(folder_); }

  ProgramResult compare(std::string const& a, std::string const& b, std::string const& more = "") {
    return run_stagecraft("compare " + path(a) + " " + path(b) + " " + more);
  }
  std::string path(std::string const& name) const { return (folder_ / (name + ".h5")).string(); }

 private:
  void record(std::string const& name, std::string const& more) {
    ProgramResult const result =
        run_stagecraft("simulate '" STAGECRAFT_SOURCE_DIR "/configs/paper/22b-present.yaml'" +
                       more + " --detail op --trace " + path(name));
    INFO(result.errors);
    REQUIRE(result.exit_code == 0);
  }

  std::filesystem::path folder_;
};

}  // namespace

TEST_CASE(
    "compare --json has the fields of stagecraft.comparison/1 and the differences of two systems") {
  Traces traces;
  ProgramResult const result = traces.compare("selene", "h100", "--json");
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.errors.empty());
  auto const json = nlohmann::json::parse(result.output);
  REQUIRE(json.at("schema") == "stagecraft.comparison/1");
  REQUIRE(json.at("same_plan") == true);
  REQUIRE(json.at("iteration_percent").get<double>() < 0);  // a faster machine
  auto const& rank = json.at("ranks").at(0);
  REQUIRE(rank.at("rank") == 0);
  REQUIRE(rank.at("peak_bytes").size() == 2);
  std::int64_t sum = 0;
  for (char const* const category : {"parameters", "gradients", "optimizer", "activations",
                                     "recomputed", "communication", "workspace"}) {
    REQUIRE(rank.at("by_category").at(category).size() == 2);
    sum += rank.at("by_category").at(category).at(0).get<std::int64_t>();
    // One plan: what it holds does not depend on the system, but for its declared workspace.
    bool const is_equal =
        rank.at("by_category").at(category).at(0) == rank.at("by_category").at(category).at(1);
    REQUIRE((is_equal || std::string{category} == "workspace"));
  }
  REQUIRE(rank.at("peak_bytes").at(0) == sum);
  for (auto const& op : json.at("ops")) {
    REQUIRE(op.at("op").is_string());
    REQUIRE(op.at("phase").is_string());
    REQUIRE(op.at("seconds").size() == 2);
  }

  ProgramResult const tables = traces.compare("selene", "h100");
  REQUIRE(tables.exit_code == 0);
  REQUIRE_THAT(tables.output,
               Contains("simulated on selene-a100") && Contains("simulated on dgx-h100") &&
                   Contains("B's iteration is") && Contains("shorter than A's. On stage 0"));

  ProgramResult const same = traces.compare("selene", "selene");
  REQUIRE_THAT(same.output, Contains("Both iterations take the same time. Memory peaks are equal"));

  ProgramResult const refused = traces.compare("selene", "full");
  REQUIRE(refused.exit_code == 2);
  REQUIRE(refused.output.empty());
  REQUIRE_THAT(refused.errors,
               Contains("full.h5: is of plan ") && Contains("selene.h5 is of plan "));
  REQUIRE_THAT(refused.errors, Contains(json.at("plans").at(0).get<std::string>().substr(0, 12)));
  REQUIRE(traces.compare("selene", "full", "--force").exit_code == 0);
}

TEST_CASE("compare says which stages it leaves out because one trace lacks them") {
  Traces traces;
  std::string const some = traces.path("some");
  std::string const run =
      "simulate '" STAGECRAFT_SOURCE_DIR "/configs/paper/175b-present.yaml' --trace ";
  REQUIRE(run_stagecraft(run + traces.path("all")).exit_code == 0);
  REQUIRE(run_stagecraft(run + some + " --ranks 0,3").exit_code == 0);
  REQUIRE_THAT(traces.compare("all", "some").output,
               Contains("Left out, only in A: stages 1, 2, 4, 5, 6 and 7.\n"));
  nlohmann::json const json = nlohmann::json::parse(traces.compare("some", "all", "--json").output);
  REQUIRE(json["stages_alone"] == nlohmann::json{nlohmann::json::array(), {1, 2, 4, 5, 6, 7}});

  ProgramResult const text = traces.compare("selene", "text");
  REQUIRE(text.exit_code == 2);
  REQUIRE_THAT(text.errors, Contains("text.h5: is not an HDF5 file"));
  ProgramResult const missing = traces.compare("none", "selene");
  REQUIRE(missing.exit_code == 2);
  REQUIRE_THAT(missing.errors, Contains("none.h5: there is no such file"));
}

TEST_CASE("compare --tolerance exits with 1 if the traces differ by more") {
  Traces traces;
  ProgramResult const same = traces.compare("selene", "selene", "--tolerance 0");
  REQUIRE(same.exit_code == 0);
  REQUIRE_THAT(same.output, Contains("All rows are the same work in the same order, with the same "
                                     "memory in every category but"));
  // Another system: the same work and memory, other times.
  REQUIRE(traces.compare("selene", "h100").exit_code == 0);
  REQUIRE(traces.compare("selene", "h100", "--tolerance 1%").exit_code == 1);
  REQUIRE(traces.compare("selene", "h100", "--tolerance 100%").exit_code == 0);
  REQUIRE(traces.compare("selene", "h100", "--tolerance x").exit_code == 2);
}

TEST_CASE("compare wants two files and says so") {
  for (std::string const arguments : {"", "a.h5", "a.h5 b.h5 c.h5"}) {
    ProgramResult const result = run_stagecraft("compare " + arguments);
    REQUIRE(result.exit_code == 2);
    REQUIRE_THAT(result.errors, Contains("accepted: two traces"));
  }
  ProgramResult const help = run_stagecraft("compare --help");
  REQUIRE(help.exit_code == 0);
  REQUIRE_THAT(help.output, Contains("stagecraft compare predicted.h5 executed.h5"));
}

TEST_CASE("a trace that cannot be written is exit code 1, and nothing is left of it") {
  ProgramResult const result =
      run_stagecraft("simulate '" STAGECRAFT_SOURCE_DIR
                     "/configs/paper/22b-present.yaml' --trace /no/such/folder/a.h5");
  REQUIRE(result.exit_code == 1);
  REQUIRE_THAT(result.errors, Contains("/no/such/folder/a.h5: No such file or directory"));
}

}  // namespace stagecraft::compare_command_test
