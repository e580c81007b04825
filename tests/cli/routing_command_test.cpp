#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::routing_command_test {
namespace {

using nlohmann::json;

/// A mixture of 4 experts on two replicas that split them; of 128 tokens each chooses two.
class Mixture {
 public:
  Mixture() {
    folder_.write("counts.csv",
                  "layer,microbatch,expert,rows\n"
                  "0,,0,128\n0,,1,100\n0,,2,20\n0,,3,8\n"
                  "1,,0,64\n1,,1,64\n1,,2,64\n1,,3,64\n");
  }

  std::string run(std::string const& routing) const {
    return "'" +
           folder_.write("run.yaml",
                         "model: {layers: 2, hidden: 64, heads: 4, sequence: 128, vocabulary: 256, "
                         "experts: {count: 4, per_token: 2, ffn_hidden: 96}}\n"
                         "system: " STAGECRAFT_SOURCE_DIR
                         "/configs/systems/selene-a100.yaml\n"
                         "parallel: {data: 2, expert: 2}\nbatch: {global: 4}\nrouting: " +
                             routing + "\n") +
           "'";
  }
  TemporaryFolder const& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
};

TEST_CASE("simulate says which ranks hold most and least if a file gives them rows") {
  Mixture const mixture;
  std::string const run = mixture.run("{file: counts.csv}");
  json const result = json_of("simulate " + run + " --json");
  json const& ranks = result.at("stages")[0].at("ranks");
  REQUIRE(ranks.at("distinct") == 2);
  REQUIRE(ranks.at("fullest") == 0);
  REQUIRE(ranks.at("emptiest") == 1);
  REQUIRE(ranks.at("least_peak_bytes") < result.at("stages")[0].at("peak_bytes"));
  REQUIRE(ranks.at("hottest") == 0);
  REQUIRE(ranks.at("coldest") == 1);
  REQUIRE(ranks.at("coldest_busy_seconds") <= ranks.at("hottest_busy_seconds"));
  REQUIRE(ranks.at("hottest_busy_seconds") <= result.at("stages")[0].at("busy_seconds"));
  REQUIRE_THAT(run_stagecraft("simulate " + run).output,
               Catch::Contains("experts compute different numbers of rows: 2 kinds of ranks") &&
                   Catch::Contains("rank 0 of it holds most, rank 1 least") &&
                   Catch::Contains("that it is busy, rank 1, with least to compute, waits"));
  REQUIRE_THAT(run_stagecraft("explain " + run).output,
               Catch::Contains("Experts compute different numbers of rows") &&
                   Catch::Contains("balanced routing"));
  json const balanced = json_of("simulate " + run + " --set routing=balanced --json");
  REQUIRE(balanced.at("stages")[0].at("ranks").is_null());
  REQUIRE(balanced.at("iteration_seconds") < result.at("iteration_seconds"));
  REQUIRE(balanced.at("hfu").get<double>() * balanced.at("iteration_seconds").get<double>() ==
          Approx(result.at("hfu").get<double>() * result.at("iteration_seconds").get<double>()));
}

TEST_CASE("a configuration that is printed names its file of counts from any folder") {
  Mixture const mixture;
  ProgramResult const printed =
      run_stagecraft("simulate " + mixture.run("{file: counts.csv}") + " --print-config");
  REQUIRE(printed.exit_code == 0);
  TemporaryFolder const other;
  std::string const again = other.write("again.yaml", printed.output);
  json const first = json_of("simulate " + mixture.run("{file: counts.csv}") + " --json");
  REQUIRE(json_of("simulate '" + again + "' --json").at("iteration_seconds") ==
          first.at("iteration_seconds"));
}

TEST_CASE("natural routing is predicted as balanced, with a warning and more memory") {
  Mixture const mixture;
  std::string const run = mixture.run("natural");
  ProgramResult const result = run_stagecraft("simulate " + run + " --json");
  REQUIRE_THAT(result.errors, Catch::Contains("times are those of balanced"));
  json const natural = json::parse(result.output);
  json const balanced = json_of("simulate " + run + " --set routing=balanced --json");
  // Only the counts are exchanged in addition.
  REQUIRE(natural.at("iteration_seconds").get<double>() ==
          Approx(balanced.at("iteration_seconds").get<double>()).epsilon(0.05));
  REQUIRE(natural.at("stages")[0].at("peak_bytes") > balanced.at("stages")[0].at("peak_bytes"));
}

TEST_CASE("explain says what uneven rows cost, and what other dispatchers would") {
  Mixture const mixture;
  for (std::string const routing : {"{file: counts.csv}", "{factor: 1.5}", "natural"}) {
    std::string const text = run_stagecraft("explain " + mixture.run(routing)).output;
    REQUIRE_THAT(text, Catch::Contains("balanced routing"));
    REQUIRE_THAT(text, Catch::Contains("dispatch by allgather"));
  }
}

TEST_CASE("all commands count the same rank of a stage whose ranks differ from layer to layer") {
  TemporaryFolder const folder;
  folder.write("counts.csv",
               "layer,microbatch,expert,rows\n"
               "0,,0,200\n0,,1,40\n0,,2,8\n0,,3,8\n"
               "1,,0,8\n1,,1,8\n1,,2,40\n1,,3,200\n");
  std::string const layers =
      "layers: 2, hidden: 256, heads: 4, sequence: 256, vocabulary: 256, "
      "experts: {count: 4, per_token: 1, ffn_hidden: 512}";
  std::string const system = STAGECRAFT_SOURCE_DIR "/configs/systems/selene-a100.yaml";
  std::string const run =
      folder.write("run.yaml", "model: {" + layers + "}\nsystem: " + system +
                                   "\nparallel: {data: 2, expert: 2}\nbatch: {global: 4}\n"
                                   "routing: {file: counts.csv}\n");
  json const simulated = json_of("simulate '" + run + "' --json");
  json const& peak = simulated.at("stages")[0].at("peak_bytes");
  json const explained = json_of("explain '" + run + "' --json");
  REQUIRE(explained.at("peak_bytes") == peak);
  std::string const rows = folder.write("data.csv", "id,measured.allocated_bytes\na,1\n");
  json const validated = json_of("validate '" + rows + "' --base '" + run + "' --json");
  REQUIRE(validated.at("rows")[0].at("predicted_allocated_bytes") == peak);
  std::string const model = folder.write("model.yaml", "{" + layers + "}\n");
  std::string const counts = (folder.path() / "counts.csv").string();
  json const planned =
      json_of("plan '" + model + "' --system '" + system + "' --set 'routing={file: " + counts +
              "}' --gpus 2 --global-batch 4 --json");
  REQUIRE(!planned.at("best").empty());
  for (json const& plan : planned.at("best")) {
    std::string const found = folder.write("found.yaml", plan.at("config").dump());
    std::int64_t fullest = 0;
    json const again = json_of("simulate '" + found + "' --json");
    for (json const& stage : again.at("stages")) {
      fullest = std::max(fullest, stage.at("peak_bytes").get<std::int64_t>());
    }
    REQUIRE(plan.at("peak_bytes") == fullest);
  }
}

TEST_CASE("stagecraft-exec runs forced and natural routing, also on a rank alone") {
  Mixture const mixture;
  for (std::string const routing : {"{file: counts.csv}", "{factor: 1.5}", "natural"}) {
    ProgramResult const result = run_stagecraft_exec("run " + mixture.run(routing));
    INFO(result.errors);
    REQUIRE(result.exit_code == 0);
    REQUIRE_THAT(result.errors, Catch::Contains("step 0  loss"));
  }
  for (std::string const routing : {"{file: counts.csv}", "natural"}) {
    REQUIRE(
        run_stagecraft_exec("run " + mixture.run(routing) + " --ranks solo --rank 1").exit_code ==
        0);
  }
  ProgramResult const alone =
      run_stagecraft_exec("run " + mixture.run("natural") + " --set dispatch=deepep --ranks solo");
  REQUIRE(alone.exit_code == 2);
  REQUIRE_THAT(alone.errors, Catch::Contains("dispatch: found 'deepep'; accepted when a rank runs "
                                             "alone: alltoall, as routing is uneven"));
}

TEST_CASE("stagecraft-exec sends tokens once to each rank, also on a rank alone") {
  Mixture const mixture;
  std::string const deepep = " --set dispatch=deepep";
  for (std::string const routing : {"balanced", "{capacity: 1, scope: microbatch}"}) {
    ProgramResult const result = run_stagecraft_exec("run " + mixture.run(routing) + deepep);
    INFO(result.errors);
    REQUIRE(result.exit_code == 0);
    REQUIRE_THAT(result.errors, Catch::Contains("step 0  loss"));
  }
  ProgramResult const alone =
      run_stagecraft_exec("run " + mixture.run("balanced") + deepep + " --ranks solo");
  INFO(alone.errors);
  REQUIRE(alone.exit_code == 0);
}

}  // namespace
}  // namespace stagecraft::routing_command_test
