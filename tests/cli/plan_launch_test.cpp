#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::plan_launch_test {
namespace {

using Catch::Contains;
using nlohmann::json;

std::string const search =
    "plan llama2-7b --system dgx-h100 --gpus 16 --global-batch 64 --top 1 --fix tensor=2 ";

std::vector<std::string> names_in(std::filesystem::path const& folder) {
  std::vector<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator{folder}) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("plan --kit writes what starts the best plan that can be launched") {
  TemporaryFolder const folder;
  std::filesystem::path const kit = folder.path() / "new" / "kit";
  ProgramResult const result = run_stagecraft(search + "--json --kit '" + kit.string() + "'");
  REQUIRE(result.exit_code == 0);
  json const document = json::parse(result.output);
  REQUIRE(names_in(kit) == std::vector<std::string>{"README.txt", "flags.txt", "megatron_bridge.py",
                                                    "run.yaml", "slurm.sbatch", "torchrun.sh"});
  json const& launch = document.at("launch");
  REQUIRE(launch.at("framework") == "megatron-core");
  REQUIRE(launch.at("command") == "bash torchrun.sh");
  for (auto const& [name, text] : launch.at("files").items()) {
    REQUIRE(text_of(kit / name) == text.get<std::string>());
  }
  json const& best = document.at("best_launchable");
  json const run = json_of("simulate '" + (kit / "run.yaml").string() + "' --json");
  REQUIRE(run.at("iteration_seconds") == best.at("iteration_seconds"));
  REQUIRE(text_of(kit / "flags.txt") == best.at("megatron_flags").get<std::string>() + "\n");
  // 16 GPUs are two nodes of eight.
  REQUIRE_THAT(text_of(kit / "torchrun.sh"),
               Contains("torchrun --nproc-per-node 8 --nnodes 2 ") && Contains("--mock-data"));
  REQUIRE_THAT(text_of(kit / "slurm.sbatch"),
               Contains("\n#SBATCH --nodes=2\n") && Contains("\n#SBATCH --gpus-per-node=8\n"));
}

TEST_CASE("plan --kit writes into no folder that holds something, and no kit that cannot start") {
  TemporaryFolder const folder;
  folder.write("mine.txt", "text");
  std::string const kit = "--kit '" + folder.path().string() + "'";
  require_refusal(search + kit,
                  {"--kit: found '", "', which is not empty; accepted: a new or empty"});
  REQUIRE(folder.names() == std::vector<std::string>{"mine.txt"});
  require_refusal(search + "--kit '" + (folder.path() / "mine.txt").string() + "'",
                  {"which is no folder"});
  std::string const other = "--kit '" + (folder.path() / "kit").string() + "'";
  REQUIRE_THAT(run_stagecraft(search + other + " --software nanotron").errors,
               Contains("--kit: found software 'nanotron', for which no kit is known"));
  REQUIRE_THAT(
      run_stagecraft("plan gemma2-9b --system dgx-h100 --gpus 8 --global-batch 8 " + other).errors,
      Contains("--kit: found a model that the flags cannot say: model.norms"));
  REQUIRE(folder.names() == std::vector<std::string>{"mine.txt"});
}

TEST_CASE("plan takes a model whose router differs in order alone with --launchable") {
  // Qwen3's softmax is over all experts, and its probabilities are divided by the sum of the chosen
  // ones: that is a softmax over the chosen ones.
  ProgramResult const result = run_stagecraft(
      "plan qwen3-30b-a3b --system dgx-h100 --gpus 16 --global-batch 16 --launchable megatron-core "
      "--fix tensor=1 --fix pipeline=2 --fix expert=8 --fix micro=1 --top 1 --json");
  REQUIRE(result.exit_code == 0);
  REQUIRE_THAT(result.errors, Contains("router.order is after, as Megatron-LM has it, not before"));
  json const best = json::parse(result.output).at("best")[0];
  REQUIRE(best.at("config").at("model").at("experts").at("router").at("order") == "after");
  REQUIRE(best.at("megatron_gaps").empty());
  // A kit asks for the same flags.
  TemporaryFolder const folder;
  ProgramResult const kit = run_stagecraft(
      "plan qwen3-30b-a3b --system dgx-h100 --gpus 16 --global-batch 16 --fix tensor=1 "
      "--fix pipeline=2 --fix expert=8 --fix micro=1 --top 1 --json --kit '" +
      (folder.path() / "kit").string() + "'");
  REQUIRE(kit.exit_code == 0);
  // Nothing in the flags keeps loads even, which the prediction takes them to be.
  REQUIRE_THAT(
      text_of(folder.path() / "kit" / "README.txt"),
      Contains("Nothing balances the experts' loads here") && Contains("router_aux_loss_coef"));
  REQUIRE_THAT(kit.errors, Contains("router.order is after, as Megatron-LM has it, not before"));
  REQUIRE(json::parse(kit.output).at("best_launchable").at("iteration_seconds") ==
          best.at("iteration_seconds"));
}

TEST_CASE("that no plan can be started is said of those searched") {
  TemporaryFolder const folder;
  std::string const kit = (folder.path() / "kit").string();
  ProgramResult const result =
      run_stagecraft(search + "--fix pipeline=4 --fix schedule=zbv --kit '" + kit + "'");
  REQUIRE(result.exit_code == 0);
  REQUIRE_THAT(
      in_one_line(result.output),
      Contains("of the plans searched, none that the flags of megatron-core can say fits"));
  REQUIRE_THAT(result.errors, Contains("of the plans searched, none that can be launched fits"));
  REQUIRE_FALSE(std::filesystem::exists(kit));
}

TEST_CASE("of several clusters the kit is of the best by the rank") {
  TemporaryFolder const folder;
  std::string const clusters =
      "plan llama2-7b --system dgx-h100,b200-hgx --gpus 16,8 --global-batch 64 "
      "--top 2 --price 2/gpu-hour --kit '" +
      folder.path().string();
  run_stagecraft(clusters + "/time'");
  run_stagecraft(clusters + "/cost' --rank cost");
  REQUIRE_THAT(text_of(folder.path() / "time" / "torchrun.sh"), Contains(" --nnodes 2 "));
  REQUIRE_THAT(text_of(folder.path() / "cost" / "torchrun.sh"), Contains(" --nnodes 1 "));
}

TEST_CASE("plan --report writes a page of the candidates, their memory and their money") {
  TemporaryFolder const folder;
  std::string const page = (folder.path() / "plans.html").string();
  ProgramResult const result = run_stagecraft(
      "plan llama2-7b --system dgx-h100,b200-hgx --gpus 16,8 --global-batch 64 --top 2 --rank cost "
      "--price 'dgx-h100=2.5 EUR,b200-hgx=5 EUR' --report '" +
      page + "'");
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  std::string const html = text_of(page);
  REQUIRE_THAT(html, Contains("<h2>Where the money goes</h2>") &&
                         Contains("16 x dgx-h100<small>NVIDIA H100-SXM5-80GB</small>") &&
                         Contains("8 x b200-hgx") && Contains("2.50 per GPU hour") &&
                         Contains("5.00 per GPU hour"));
  // 16 x 2.5 x 24 and 8 x 5 x 24 are the same.
  REQUIRE_THAT(html, Contains("A day costs EUR 960.00."));
  REQUIRE_THAT(html, !Contains(" src=") && !Contains("<script") && !Contains("{{"));
  std::string const one = (folder.path() / "one.html").string();
  REQUIRE(run_stagecraft(search + "--report '" + one + "'").exit_code == 0);
  REQUIRE_THAT(text_of(one), Contains("<h2>Where the GPU hours go</h2>") &&
                                 Contains("the best that the flags of megatron-core can say"));
  // What --kit starts comes first, on the page and in the terminal, with what the faster one lacks.
  REQUIRE_THAT(text_of(one), Contains("Best that can be started") &&
                                 Contains("Candidate 1 takes ") && Contains(" has no flags for "));
  double const seconds = json::parse(run_stagecraft(search + "--json").output)
                             .at("best_launchable")
                             .at("iteration_seconds");
  std::ostringstream start;
  start << "to start: the best that the flags of megatron-core can say takes " << std::fixed
        << std::setprecision(3) << seconds << " s: ";
  std::string const answer = run_stagecraft(search, "COLUMNS=200").output;
  REQUIRE_THAT(answer, Contains(start.str()));
  REQUIRE(answer.find("to start: ") < answer.find("fastest plans that fit"));
  REQUIRE(run_stagecraft(search + "--report '" + (folder.path() / "no" / "x.html").string() + "'")
              .exit_code == 1);
}

}  // namespace stagecraft::plan_launch_test
