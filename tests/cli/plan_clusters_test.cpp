#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::plan_clusters_test {
namespace {

using Catch::Contains;
using nlohmann::json;

/// Two clusters: 16 H100 and 8 B200.
std::string clusters(std::string const& rest) {
  return "plan llama2-7b --system dgx-h100,b200-hgx --gpus 16,8 --global-batch 64 " + rest;
}

json document(std::string const& arguments) {
  return json::parse(run_stagecraft(arguments + " --json").output);
}

double number(json const& entry, char const* name) { return entry.at(name).get<double>(); }

}  // namespace

TEST_CASE("plans of several clusters are in one list, and each costs what its GPUs cost") {
  json const result = document(clusters(
      "--top 4 --rank cost --price dgx-h100=2.5,b200-hgx=5 --power dgx-h100=1kW,b200-hgx=2kW"));
  REQUIRE(result.at("rank") == "cost");
  REQUIRE(result.at("best").size() == 4);
  double before = 0;
  std::set<std::string> systems;
  for (json const& entry : result.at("best")) {
    std::string const system = entry.at("system").get<std::string>();
    systems.insert(system);
    REQUIRE(entry.at("config").at("system").at("name") == system);
    double const gpus = system == "dgx-h100" ? 16 : 8;
    double const price = system == "dgx-h100" ? 2.5 : 5;
    REQUIRE(number(entry, "gpus") == gpus);
    REQUIRE(number(entry, "tokens_per_second") ==
            Approx(64 * 4096 / number(entry, "iteration_seconds")));
    REQUIRE(number(entry, "cost_per_day") == Approx(gpus * price * 24));
    double const hours = gpus * 1e12 / number(entry, "tokens_per_second") / 3600;
    REQUIRE(number(entry, "gpu_hours_per_trillion_tokens") == Approx(hours));
    REQUIRE(number(entry, "cost_per_trillion_tokens") == Approx(price * hours));
    REQUIRE(number(entry.at("operation"), "joules_per_iteration") ==
            Approx(gpus * (system == "dgx-h100" ? 1e3 : 2e3) * number(entry, "iteration_seconds")));
    REQUIRE(number(entry, "cost_per_trillion_tokens") >= before);
    before = number(entry, "cost_per_trillion_tokens");
  }
  REQUIRE(systems == std::set<std::string>{"b200-hgx", "dgx-h100"});
}

TEST_CASE("an answer for many clusters has at most 40 lines of at most 100 columns") {
  for (std::string const& asked :
       {std::string{"dgx-h100,b200-hgx,selene-a100,aws-p5 --gpus 16 --precision none"},
        std::string{"dgx-h100,b200-hgx,h20,gh200,h800,a100-4hdr,selene-a100,aws-p5 "
                    "--gpus 8 --price 2/gpu-hour --power 1kW --tokens 1e12"}}) {
    CAPTURE(asked);
    ProgramResult const result = run_stagecraft(
        "plan gpt2-xl --global-batch 32 --software megatron-core --fix micro=8 --system " + asked,
        "COLUMNS=100");
    INFO(result.errors);
    REQUIRE(result.exit_code == 0);
    std::istringstream lines{result.output};
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) REQUIRE(line.size() <= 100);
    REQUIRE(count <= 40);
    // The best of all is there.
    REQUIRE_THAT(result.output, Contains("\n 1  "));
  }
}

TEST_CASE("MFU of products in 8 bits is said to be of the peak in 16") {
  // 989.4 TFLOP/s of an H100 in bf16, without sparsity: NVIDIA's data sheet.
  std::string const command =
      "plan llama2-7b --system dgx-h100 --gpus 8 --global-batch 16 --top 1 --precision current";
  json const best = document(command).at("best")[0];
  REQUIRE(best.at("mfu_precision") == "bf16");
  TemporaryFolder const folder;
  std::string const run = "'" + folder.write("r.yaml", best.at("config").dump()) + "'";
  json const simulated = json_of("simulate --json " + run);
  REQUIRE(simulated.at("mfu_precision") == "bf16");
  REQUIRE(number(simulated, "mfu") == Approx(number(simulated, "model_flops") /
                                             number(simulated, "iteration_seconds") / 8 / 989.4e12)
                                          .epsilon(1e-3));
  std::string const words = "of the bf16 peak, not of that in 8 bits";
  REQUIRE_THAT(run_stagecraft("simulate " + run).output, Contains(words));
  std::string const page = (folder.path() / "plans.html").string();
  REQUIRE_THAT(run_stagecraft(command + " --all --report '" + page + "'").output, Contains(words));
  REQUIRE_THAT(text_of(page), Contains(words));
}

TEST_CASE("recipes of products in 8 bits are compared, and words that are none are refused") {
  std::string const command =
      "plan llama2-7b --system dgx-h100 --gpus 8 --global-batch 16 --top 4 --precision ";
  json const result = document(command + "none,current");
  std::set<std::string> recipes;
  for (json const& entry : result.at("best")) {
    recipes.insert(entry.at("config").at("low_precision").get<std::string>());
  }
  REQUIRE(recipes == std::set<std::string>{"current", "none"});
  // Twice the rate of most products.
  REQUIRE(result.at("best")[0].at("config").at("low_precision") == "current");
  REQUIRE(result.at("warnings").dump().find("kinds of measurements") == std::string::npos);
  // b200-hgx: 0.763 of 4500 TFLOP/s in 8 bits, 0.547 of 2250 in 16.
  json const uneven = document(
      "plan llama2-7b --system b200-hgx --gpus 8 --global-batch 16 --top 1 --precision "
      "none,mxfp8,nvfp4");
  std::string const warnings = uneven.at("warnings").dump();
  REQUIRE_THAT(
      warnings,
      Contains("products in 8 bits are predicted 2.79 times as fast as in bf16, where the "
               "peaks have 2.00; the two rates come from different kinds of measurements"));
  REQUIRE_THAT(warnings, Contains("nvfp4: training in 4 bits may change the loss"));
  require_refusal(command + "fp8",
                  {"--precision: found 'fp8'; accepted: any, or once each of none"});
  require_refusal(command + "none,none", {"--precision: found 'none' twice"});
  // torchao/float8/config.py has no delayed scales.
  std::string const left_out =
      "--precision delayed is left out on dgx-h100: torchao, with which torchtitan quantises, does "
      "not have it";
  ProgramResult const both = run_stagecraft(command + "none,delayed --software torchtitan");
  REQUIRE_THAT(both.output + both.errors, Contains(left_out));
  REQUIRE(both.exit_code == 0);
  require_refusal(command + "delayed --software torchtitan",
                  {"--precision: found 'delayed'; ", left_out});
}

TEST_CASE("a cluster among several has the answer that it has alone") {
  json const both = document(clusters("--top 2"));
  REQUIRE(both.at("clusters").size() == 2);
  double considered = 0;
  for (json const& cluster : both.at("clusters")) {
    std::string const system = cluster.at("system").get<std::string>();
    json const alone = document("plan llama2-7b --system " + system + " --gpus " +
                                cluster.at("gpus").dump() + " --global-batch 64 --top 2");
    REQUIRE(alone.at("clusters").is_null());
    for (char const* const name :
         {"considered", "best", "pareto", "best_launchable", "near_ties"}) {
      REQUIRE(cluster.at(name) == alone.at(name));
    }
    considered += number(alone, "considered");
  }
  REQUIRE(number(both, "considered") == considered);
  REQUIRE(both.at("near_ties").is_null());
}

TEST_CASE("what ranks plans of several clusters decides their order") {
  auto const first = [](std::string const& rest) {
    return document(clusters("--top 2 " + rest)).at("best")[0].at("system");
  };
  // 16 H100 take less time than 8 B200. A B200 does more than an H100.
  REQUIRE(first("") == "dgx-h100");
  REQUIRE(first("--rank iteration") == "dgx-h100");
  REQUIRE(first("--rank tokens") == "b200-hgx");
  REQUIRE(first("--rank cost --price 2/gpu-hour") == "b200-hgx");
  REQUIRE(first("--rank energy --power 1kW") == "b200-hgx");
  REQUIRE(first("--rank energy --power dgx-h100=0.5kW,b200-hgx=2kW") == "dgx-h100");
  require_refusal(clusters("--rank cost"), {"--rank: found 'cost' without --price"});
  require_refusal(clusters("--rank energy"), {"--rank: found 'energy' without --power"});
}

TEST_CASE("lists of systems and numbers pair up, and one value serves all") {
  std::string const model = "plan gpt-22b --global-batch 16 --top 1 ";
  auto const pairs = [&](std::string const& rest) {
    std::vector<std::string> list;
    json const result = document(model + rest);
    for (json const& cluster : result.at("clusters")) {
      list.push_back(cluster.at("gpus").dump() + cluster.at("system").get<std::string>());
    }
    return list;
  };
  REQUIRE(pairs("--system selene-a100 --gpus 8,16") ==
          std::vector<std::string>{"8selene-a100", "16selene-a100"});
  REQUIRE(pairs("--system selene-a100,dgx-h100 --gpus 8") ==
          std::vector<std::string>{"8selene-a100", "8dgx-h100"});
  require_refusal(
      model + "--system selene-a100,dgx-h100 --gpus 8,16,32",
      {"--gpus: found '8,16,32' beside 2 systems; accepted: one number for all systems, "
       "or as many numbers as systems"});
  require_refusal(model + "--system selene-a100,dgx-h100,b200-hgx --gpus 8,16",
                  {"beside 3 systems"});
  require_refusal(model + "--system selene-a100 --gpus 8,8", {"'8' of selene-a100 twice"});
  require_refusal(model + "--system selene-a100,dgx-h10 --gpus 8",
                  {"--system: found 'dgx-h10'", "dgx-h100"});
  require_refusal(model + "--system selene-a100,dgx-h100 --gpus 8 --price selene-a100=2",
                  {"--price: found none for 'dgx-h100'; accepted: one for each system"});
  require_refusal(model + "--system selene-a100 --gpus 8,16 --price dgx-h10=2",
                  {"--price: found 'dgx-h10'; accepted: selene-a100"});
}

TEST_CASE("a cluster on which nothing fits does not hide the others") {
  std::string const search =
      "plan gpt3-175b --system selene-a100 --gpus 8,64 --global-batch 64 --top 1 ";
  json const result = document(search);
  REQUIRE(result.at("best").size() == 1);
  REQUIRE(result.at("best")[0].at("gpus") == 64);
  REQUIRE(result.at("clusters")[0].at("best").empty());
  std::string const text = run_stagecraft(search).output;
  REQUIRE_THAT(in_one_line(text), Contains("8 x selene-a100: nothing fits: of "));
  REQUIRE(run_stagecraft("plan gpt3-175b --system selene-a100 --gpus 8,4 --global-batch 64")
              .exit_code == 3);
}

TEST_CASE("a comparison is one screen, with the best of each cluster") {
  std::string const text =
      run_stagecraft(clusters("--price dgx-h100=2.5,b200-hgx=5 --rank cost"), "unset COLUMNS;")
          .output;
  REQUIRE(std::count(text.begin(), text.end(), '\n') <= 40);
  REQUIRE_THAT(text, Contains("\n 1  dgx-h100    16  ") && Contains("  b200-hgx     8  ") &&
                         Contains("  Kh/T    /day      /T  "));
  REQUIRE_THAT(text, Contains("\n8 x b200-hgx: no 80 % interval: "));
}

TEST_CASE("plan's stack is that of the paper on the paper's cluster, and of today elsewhere") {
  auto const stack = [](std::string const& rest) {
    return document("plan gpt-22b --gpus 8 --global-batch 8 --top 1 " + rest)
        .at("best")[0]
        .at("config")
        .at("software")
        .at("name");
  };
  REQUIRE(stack("--system selene-a100") == "megatron-2022");
  REQUIRE(stack("--system dgx-h100") == "megatron-core");
  REQUIRE(stack("--system dgx-h100 --software nanotron") == "nanotron");
  REQUIRE(stack("--system dgx-h100 --set software=megatron-2022") == "megatron-2022");
  REQUIRE_THAT(run_stagecraft("plan gpt-22b --gpus 8 --global-batch 8 --system dgx-h100").output,
               Contains(", software megatron-core\n"));
}

}  // namespace stagecraft::plan_clusters_test
