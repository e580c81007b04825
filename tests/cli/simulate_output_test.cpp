#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::simulate_output_test {

namespace {

using Catch::Contains;
using nlohmann::json;

json simulated_22b() { return json_of("simulate --json " + paper_run("22b-present")); }

}  // namespace

TEST_CASE("simulate counts one microbatch in the singular") {
  // 8 sequences of 1 replica: 8 / 4 = 2 microbatches, and 8 / 8 = 1.
  std::string const run = "simulate " + paper_run("22b-present") + " --set batch.global=8 --set ";
  REQUIRE_THAT(run_stagecraft(run + "batch.micro=4").output,
               Contains(", 2 microbatches of 4 per replica"));
  REQUIRE_THAT(run_stagecraft(run + "batch.micro=8").output,
               Contains(", 1 microbatch of 8 per replica"));
}

TEST_CASE("simulate --against shows a base line, what differs and by how much") {
  std::string const base = paper_run("175b-present");
  std::string const what_if = "simulate " + base + " --set recompute=full --against " + base;
  json const document = json_of(what_if + " --json");
  json const before = json_of("simulate " + base + " --json");
  json const& against = document.at("against");
  REQUIRE(against.at("iteration_seconds") == before.at("iteration_seconds"));
  REQUIRE(against.at("mfu") == before.at("mfu"));
  REQUIRE(against.at("difference").at("iteration_seconds").get<double>() ==
          Approx(document.at("iteration_seconds").get<double>() -
                 before.at("iteration_seconds").get<double>()));
  json const& first = against.at("changes").at(0);
  REQUIRE(first.at("key") == "recompute.granularity");
  REQUIRE(first.at("before") == "selective");
  REQUIRE(first.at("after") == "full");
  ProgramResult const tables = run_stagecraft(what_if);
  REQUIRE(tables.exit_code == 0);
  REQUIRE_THAT(tables.output,
               Contains("base line") && Contains("this run") && Contains("selective -> full"));
  REQUIRE_THAT(run_stagecraft("simulate " + base + " --against " + base).output,
               Contains("no key differs"));
  require_refusal("simulate " + base + " --against none.yaml", {"none.yaml"});
  // A bundled run has a name, here too.
  REQUIRE(run_stagecraft("simulate 22b-full --against 22b-present").exit_code == 0);
}

TEST_CASE("no reserve is spoken of where what is on the device beside the allocator is known") {
  TemporaryFolder const folder;
  std::string const core = folder.write(
      "core.yaml",
      "{model: llama2-7b, system: dgx-h100, software: megatron-core, parallel: {tensor: 8, "
      "sequence: true}, batch: {global: 8, micro: 1}}");
  std::string const what_if =
      "simulate '" + core + "' --set batch.micro=2 --against '" + core + "'";
  auto const least_margin = [](json const& simulation) {
    auto least = std::numeric_limits<std::int64_t>::max();
    for (json const& stage : simulation.at("stages")) {
      least = std::min(least, stage.at("margin_bytes").get<std::int64_t>());
    }
    return least;
  };
  REQUIRE(json::parse(run_stagecraft(what_if + " --json").output).at("against").at("free_bytes") ==
          least_margin(json::parse(run_stagecraft("simulate '" + core + "' --json").output)));
  ProgramResult const tables = run_stagecraft(what_if);
  REQUIRE_THAT(tables.output, Contains("free GiB, fullest device") && !Contains("the reserve"));
  std::string const trace = (folder.path() / "core.h5").string();
  std::string const page = (folder.path() / "core.html").string();
  REQUIRE(run_stagecraft("simulate '" + core + "' --trace '" + trace + "'").exit_code == 0);
  REQUIRE(run_stagecraft("report '" + trace + "' -o '" + page + "'").exit_code == 0);
  std::string const html = text_of(page);
  std::string const facts = html.substr(0, html.find("timeline-heading"));
  REQUIRE_THAT(facts, Contains("the rest is driver, context and NCCL. Of") &&
                          !Contains("of the reserve") && !Contains("reserve of the run"));
  // An H800 has the memory and the switches of an H100.
  REQUIRE_THAT(run_stagecraft("simulate '" + core + "' --set system=h800").output,
               Contains("of driver, CUDA context and NCCL"));
  // A reserve that is set takes the place of what is known.
  REQUIRE_THAT(run_stagecraft("simulate '" + core + "' --set memory.reserve=4GiB").output,
               Contains("4.00 GiB of reserve"));
  REQUIRE_THAT(run_stagecraft("simulate '" + core +
                              "' --require-fit --set 'batch={global: 256, "
                              "micro: 32}'")
                   .errors,
               !Contains("of reserve"));
}

TEST_CASE("simulate says money, energy and goodput of a run when asked") {
  std::string const run = "simulate " + paper_run("175b-present");
  json const document =
      json_of(run +
              " --json --price '2 EUR/gpu-hour' --power 500W --pue 1.2 --tokens 1B"
              " --gpu-hours-per-failure 40k");
  json const& operation = document.at("operation");
  double const seconds = document.at("iteration_seconds").get<double>();
  REQUIRE(operation.at("cost_per_iteration").get<double>() == Approx(64 * 2 * seconds / 3600));
  REQUIRE(operation.at("joules_per_iteration").get<double>() == Approx(64 * 600 * seconds));
  REQUIRE(operation.at("joules_per_token").get<double>() ==
          Approx(64 * 600 / document.at("tokens_per_second").get<double>()));
  REQUIRE(operation.at("goodput").at("seconds_between_failures").get<double>() ==
          Approx(40000.0 / 64 * 3600));
  double const share = operation.at("goodput").at("share").get<double>();
  REQUIRE(share < 1);
  double const days = 1e9 / document.at("tokens_per_second").get<double>() / 86400 / share;
  REQUIRE(operation.at("days").get<double>() == Approx(days));
  REQUIRE(operation.at("cost").get<double>() == Approx(days * 24 * 64 * 2));
  REQUIRE(!json_of(run + " --json").contains("operation"));
  REQUIRE(json_of(run + " --json --price 2").at("operation").at("price_per_gpu_hour") == 2);
  // A trillion tokens' cost at 1 a GPU hour is the hours that it is said to be for.
  std::string const costs =
      run_stagecraft(run + " --price 1 --gpu-hours-per-failure 40k", "COLUMNS=200").output;
  double const hours = json_of(run + " --json --price 1 --gpu-hours-per-failure 40k")
                           .at("operation")
                           .at("cost_per_trillion_tokens")
                           .get<double>();
  std::string thousands = std::to_string(std::lround(hours / 1000));
  thousands.insert(thousands.size() - 3, ",");
  REQUIRE_THAT(costs, Contains(" at the goodput below, for " + thousands + " thousand GPU hours"));
  require_refusal(run + " --pue 1.2", {"--pue: found without --power"});
  require_refusal(run + " --power 0W", {"--power: found '0W'; accepted: watts above 0"});
  require_refusal(run + " --power 1kkW", {"--power: found '1kkW'; accepted: watts above 0"});
  REQUIRE(json_of(run + " --json --power 0.5kW").at("operation").at("watts_per_gpu") == 500);
  require_refusal(run + " --restart-time 5", {"--restart-time: found '5'"});
}

TEST_CASE("MFU is given with all and with the causal half of attention, and named so") {
  json const document = json_of("simulate " + paper_run("175b-present") + " --json");
  // Korthikanti et al. 2022, appendix A: 72 B L s h^2 (1 + s/6h + v/12hL), of which s/6h is
  // attention.
  double const attention = 2048.0 / (6 * 12288.0);
  double const head = 51200.0 / (12 * 12288.0 * 96);
  REQUIRE(document.at("mfu_causal").get<double>() / document.at("mfu").get<double>() ==
          Approx((1 + attention / 2 + head) / (1 + attention + head)));
}

TEST_CASE("an override that changes the number of accelerators says so") {
  std::string const run = "simulate " + paper_run("175b-present");
  REQUIRE_THAT(run_stagecraft(run + " --set parallel.tensor=4").errors,
               Contains("note: 32 accelerators; ") && Contains("has 64\n"));
  REQUIRE_THAT(run_stagecraft(run + " --set parallel.tensor=4 --set parallel.data=2").errors,
               !Contains("accelerators"));
}

TEST_CASE("of what the host delays, the tables have a row and the document a member") {
  std::string const run = "simulate " + paper_run("22b-present");
  REQUIRE(simulated_22b().at("host_wait_seconds") == 0);
  REQUIRE_THAT(run_stagecraft(run).output, !Contains("host wait"));
  std::string const slow = run + " --set software.host.kernel.value='1 ms'";
  ProgramResult const tables = run_stagecraft(slow);
  REQUIRE_THAT(tables.output,
               Contains("host wait ") && Contains("host wait: the host takes longer"));
  json const document = json_of(slow + " --json");
  double const waits = document.at("host_wait_seconds").get<double>();
  REQUIRE(document.at("breakdown_seconds").at("host_wait").get<double>() == waits);
  // The device's own work and the waits are what an iteration takes longer.
  REQUIRE(document.at("iteration_seconds").get<double>() - waits ==
          Approx(simulated_22b().at("iteration_seconds").get<double>()).epsilon(0.02));
}

TEST_CASE("simulate says how far off predictions of models with experts were") {
  // experiments/validation/regimes.md, by system: 17 runs on H100 and 12 on B200.
  std::string const run =
      "simulate " + paper_run("175b-present") +
      " --set model=mixtral-8x7b --set 'parallel={tensor: 8, sequence: true}' --set "
      "schedule=1f1b --set batch.global=8 --set system=";
  std::string const h100 = "18.8 % on dgx-h100 (17 runs, mostly too short)";
  std::string const b200 = "9.8 % on b200-hgx (12 runs, mostly too short)";
  std::string const known = "the median error of such runs in 16 bits is ";
  REQUIRE_THAT(run_stagecraft(run + "dgx-h100").output, Contains(known + h100 + "\n"));
  // Of another accelerator, all that is known.
  REQUIRE_THAT(run_stagecraft(run + "selene-a100").output, Contains(known + b200 + ", " + h100));
}

TEST_CASE("simulate names what was never validated") {
  std::string const run = "simulate " + paper_run("175b-present");
  REQUIRE(json_of(run + " --json").at("not_validated_for").empty());
  std::string const longer = run + " --set model.attention=flash --set model.sequence=16384";
  REQUIRE(json_of(longer + " --json").at("not_validated_for").size() == 2);
  REQUIRE_THAT(run_stagecraft(longer).output,
               Contains("not validated for model.sequence 16384 (measured on A100: 1024 to 2048), "
                        "model.attention flash (measured on A100: ") &&
                   Contains("no 80 % interval: outside of what was measured: model.sequence "));
}

}  // namespace stagecraft::simulate_output_test
