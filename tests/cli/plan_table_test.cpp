#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::plan_table_test {
namespace {

using Catch::Contains;
using nlohmann::json;

std::string plan(std::string const& model, std::string const& rest) {
  return "plan " + model + " --system selene-a100 " + rest;
}

/// The columns of the longest line that is none of flags, which are to be pasted.
std::size_t widest(std::string const& output) {
  std::istringstream lines{output};
  std::size_t width = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("--num-layers")) width = std::max(width, line.size());
  }
  return width;
}

/// Whether the stages of a plan have policies of their own.
bool is_by_stage(json const& plan) {
  json const& recompute = plan.at("config").at("recompute");
  return recompute.is_object() && recompute.contains("per_stage");
}

}  // namespace

TEST_CASE("plan's lines have 100 columns, or those of the terminal") {
  for (std::string const& search :
       {plan("gpt3-175b", "--gpus 64 --global-batch 64"),
        plan("gpt3-175b", "--gpus 64 --global-batch 64 --price 2.5/gpu-hour --tokens 300B"),
        plan("gpt-22b", "--gpus 16 --global-batch 256 --top 20"),
        plan("gpt-22b",
             "--gpus 16,32 --global-batch 256 --price 2/gpu-hour --power 1kW --tokens "
             "1T --rank energy")}) {
    CAPTURE(search);
    REQUIRE(widest(run_stagecraft(search, "unset COLUMNS;").output) <= 100);
  }
  std::string const search = plan("gpt3-175b", "--gpus 64 --global-batch 64 --top 3");
  std::string const wide = run_stagecraft(search, "COLUMNS=160").output;
  REQUIRE(widest(wide) > 100);
  REQUIRE(widest(wide) <= 160);
}

TEST_CASE("plan searches sets of modules, which its kit's flags say and its table names in short") {
  std::string const search =
      plan("gpt-22b",
           "--software megatron-core --gpus 8 --global-batch 8 --top 1 --launchable "
           "megatron-core --set model.attention=flash --fix tensor=4 --fix "
           "recompute=modules");
  ProgramResult const shown = run_stagecraft(search);
  REQUIRE_THAT(shown.output, Contains("recomputed modules: ") && Contains("ln layernorm"));
  REQUIRE(widest(shown.output) <= 100);
  json const best = json_of(search + " --json").at("best")[0];
  REQUIRE(best.at("config").at("recompute").at("modules").back() == "layernorm");
  TemporaryFolder const folder;
  std::string const file = (folder.path() / "run.yaml").string();
  ProgramResult const imported =
      run_stagecraft("import megatron --world-size 8 --system selene-a100 --megatron current -o '" +
                     file + "' -- " + best.at("megatron_flags").get<std::string>());
  INFO(imported.errors);
  REQUIRE(imported.exit_code == 0);
  REQUIRE(json_of("simulate '" + file + "' --json").at("iteration_seconds") ==
          best.at("iteration_seconds"));
  // Megatron-LM of 2022 recomputes the core of attention alone.
  require_refusal(plan("gpt-22b",
                       "--software megatron-2022 --gpus 8 --global-batch 8 --fix "
                       "recompute=modules"),
                  {"--fix: found 'recompute=modules'", "Megatron-LM of 2022"});
}

TEST_CASE("plan prints at most 40 lines, whatever is asked, unless all is asked for") {
  for (std::string const& search :
       {plan("gpt3-175b", "--gpus 64 --global-batch 64"),
        plan("gpt3-175b",
             "--gpus 64 --global-batch 64 --price 2.5/gpu-hour --power 1kW --tokens "
             "300B --gpu-hours-per-failure 40k"),
        plan("gpt-22b", "--gpus 16 --global-batch 256 --top 50")}) {
    CAPTURE(search);
    std::string const screen = run_stagecraft(search, "unset COLUMNS;").output;
    REQUIRE(std::count(screen.begin(), screen.end(), '\n') <= 40);
    REQUIRE_THAT(screen, Contains(" --all; time against memory: --front\n") &&
                             Contains("\nnot searched: parallel.overlap_gradients, "));
    std::string const all = run_stagecraft(search + " --all", "unset COLUMNS;").output;
    REQUIRE(std::count(all.begin(), all.end(), '\n') > 40);
    REQUIRE_THAT(all, Contains("--num-layers ") && Contains("\ntime against memory: "));
  }
}

TEST_CASE("plan names no row that it does not print") {
  std::regex const row{"^ *(\\d+) ", std::regex::multiline};
  std::regex const name{"#(\\d+)"};
  auto const numbers = [](std::string const& text, std::regex const& pattern) {
    std::set<int> found;
    for (std::sregex_iterator match{text.begin(), text.end(), pattern}, end; match != end;
         ++match) {
      found.insert(std::stoi((*match)[1]));
    }
    return found;
  };
  for (std::string const& search :
       {plan("gpt3-175b", "--gpus 64 --global-batch 64 --margin 0"),
        plan("gpt-22b", "--gpus 16 --global-batch 256 --top 50 --margin 0"),
        plan("gpt-22b", "--gpus 8 --global-batch 8 --margin 0 --front")}) {
    CAPTURE(search);
    std::string const text = run_stagecraft(search, "unset COLUMNS;").output;
    std::set<int> const rows = numbers(text, row);
    std::set<int> const named = numbers(text, name);
    CAPTURE(text);
    REQUIRE(std::ranges::includes(rows, named));
  }
}

TEST_CASE("the stages of the best plan are all shown, equal neighbours in one line") {
  // Of a stack whose framework has no flags, so that no other plan than the first is to be started.
  std::string const search =
      plan("gpt3-175b",
           "--gpus 64 --global-batch 64 --top 1 --software nanotron --fix tensor=8 "
           "--fix pipeline=8 --fix schedule=interleaved");
  json const best = json_of(search + " --json").at("best")[0];
  TemporaryFolder const folder;
  json const stages =
      json_of("simulate '" + folder.write("best.yaml", best.at("config").dump()) + "' --json")
          .at("stages");
  std::istringstream lines{run_stagecraft(search).output};
  std::string line;
  while (std::getline(lines, line) && line != "the stages of #1:") {
  }
  std::getline(lines, line);  // headings
  std::size_t shown = 0;
  while (shown < stages.size()) {
    REQUIRE(std::getline(lines, line));
    std::size_t const first = std::stoul(line);
    REQUIRE(first == shown);
    std::size_t const dash = line.find('-');
    bool const is_range = dash < line.find(' ');
    shown = (is_range ? std::stoul(line.substr(dash + 1)) : first) + 1;
    CAPTURE(line);
    // Every stage of the line has its layers and its policy.
    for (std::size_t stage = first; stage < shown; ++stage) {
      json const& policy = best.at("config").at("recompute").at("per_stage")[stage];
      std::string const kept = policy.at("store_microbatches").dump();
      REQUIRE_THAT(line, Contains(" " + stages[stage].at("layers").dump() + " ") &&
                             Catch::EndsWith(kept == "0" ? " selective" : " +" + kept));
    }
  }
}

TEST_CASE("plan counts attention causally beside the full square where kernels do") {
  auto const heading = [](std::string const& rest) {
    std::string const output = run_stagecraft(plan("gpt-22b", rest)).output;
    std::size_t const begin = output.find("\n #  ") + 1;
    std::size_t const other = output.find("\n#  ") + 1;
    std::size_t const at = begin == 0 ? other : begin;
    return output.substr(at, output.find('\n', at) - at);
  };
  std::string const search = "--gpus 8 --global-batch 8 --top 1 --set model.sequence=8192 ";
  REQUIRE_THAT(heading(search + "--set model.attention=flash"), Contains("MFU %  causal  "));
  REQUIRE_THAT(heading(search), !Contains("causal"));
  // At 131,072 tokens attention is most of the work, so that another column has to go.
  std::string const longest = run_stagecraft(
                                  "plan llama3.1-8b-128k --system dgx-h100 --gpus 64 "
                                  "--global-batch 32 --top 3",
                                  "COLUMNS=100")
                                  .output;
  REQUIRE_THAT(longest, Contains("MFU %  causal  "));
}

TEST_CASE("the legend explains what stages with different kinds of recompute are called") {
  std::string const output = in_one_line(
      run_stagecraft("plan llama3-70b --system dgx-h100 --gpus 32 --global-batch 128 --top 2 "
                     "--fix recompute=per_stage")
          .output);
  REQUIRE_THAT(output, Contains("full/none") &&
                           Contains("recompute A/B: of some stages A, of others B (--all)"));
}

TEST_CASE("with --all a policy of stages that has no room in its row is below it, complete") {
  std::string const search = plan("gpt3-175b", "--gpus 64 --global-batch 64 --top 3 --all");
  json const best = json_of(search + " --json").at("best");
  REQUIRE(is_by_stage(best[0]));
  REQUIRE_FALSE(is_by_stage(best[1]));
  std::string const output = run_stagecraft(search, "COLUMNS=100").output;
  REQUIRE_THAT(output, Contains("  interleaved  by stage:\n    0 selective +4; 1 selective +6; ") &&
                           Contains("  interleaved  selective\n"));
  // All eight stages are named, the last one alone or as the end of a range.
  REQUIRE_THAT(output, Contains("; 7 selective") || Contains("-7 selective"));
  REQUIRE_THAT(run_stagecraft(search, "COLUMNS=300").output,
               Contains("  interleaved  0 selective +4; 1 selective +6; "));
}

TEST_CASE("what plans have in common is said once, what they differ in has a column") {
  std::string const search = "--gpus 8 --global-batch 8 --top 2 --fix tensor=8 ";
  std::string const with = run_stagecraft(plan("gpt-22b", search)).output;
  REQUIRE_THAT(
      with,
      Contains(
          "\nall with sequence parallelism, layers even, optimizer state whole, one stage\n") &&
          !Contains("  SP"));
  std::string const without =
      run_stagecraft(plan("gpt-22b", "--gpus 8 --global-batch 8 --top 2 --fix tensor=1")).output;
  REQUIRE_THAT(without, Contains("\nall with no sequence parallelism, "));
  std::string const mixed = plan("gpt-22b", "--gpus 16 --global-batch 16 --top 10");
  std::set<bool> sharded;
  json const result = json_of(mixed + " --json");
  for (json const& entry : result.at("best")) {
    sharded.insert(entry.at("config").at("memory").at("distributed_optimizer").get<bool>());
  }
  std::string const output = run_stagecraft(mixed).output;
  std::size_t const heading = output.find("  tok/s  ");
  bool const has_column =
      output.substr(heading, output.find('\n', heading) - heading).find("optim") !=
      std::string::npos;
  REQUIRE(has_column == (sharded.size() == 2));
}

}  // namespace stagecraft::plan_table_test
