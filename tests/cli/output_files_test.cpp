#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft {

// One rule for all commands: a file is replaced by one of its kind, and by nothing else.
TEST_CASE("commands replace files of the kind that they write, and refuse others", "[cli]") {
  TemporaryFolder const folder;
  auto const path = [&](std::string const& name) {
    return "'" + (folder.path() / name).string() + "'";
  };
  std::string const trace = path("t.h5");
  std::string const gpt =
      "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
      "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 16 --fp16";
  std::string const models = STAGECRAFT_SOURCE_DIR "/configs/models/";
  std::vector<std::pair<std::string, std::string>> const commands{
      {"simulate " + paper_run("22b-present") + " --trace ", "an HDF5 file"},
      {"report " + trace + " -o ", "an HTML page"},
      {"export " + trace + " --format csv -o ", "a CSV file"},
      {"export " + trace + " --format chrome -o ", "a JSON file"},
      {"plan '" + models +
           "gpt-22b.yaml' --system selene-a100 --gpus 8 --global-batch 4 --top 1 "
           "--fix tensor=8 -o ",
       "a YAML file"},
      {"import megatron --world-size 4 -o OUTPUT -- " + gpt, "a YAML file"}};
  folder.write("text", "once upon a time\n");
  folder.write("data.csv", "tensor,seconds\n8,1.5\n");
  folder.write("list.json", "[1]\n");
  folder.write("run.yaml", "# a run\n\nmodel: gpt3-175b\n");
  folder.write("page.html", "<!DOCTYPE html>\n");
  std::vector<std::pair<std::string, std::string>> const files{{"text", "a file of another kind"},
                                                               {"data.csv", "a CSV file"},
                                                               {"list.json", "a JSON file"},
                                                               {"run.yaml", "a YAML file"},
                                                               {"page.html", "an HTML page"}};
  std::size_t number = 0;
  for (auto const& [command, kind] : commands) {
    INFO(command);
    auto const with = [&](std::string const& output) {
      std::size_t const at = command.find("OUTPUT");
      return at == std::string::npos ? command + output
                                     : std::string{command}.replace(at, 6, output);
    };
    for (auto const& [file, found] : files) {
      if (found == kind) continue;
      std::string const before = text_of(folder.path() / file);
      require_refusal(with(path(file)), {"which exists and is " + found +
                                         "; accepted: a new file, or " + kind + " to replace"});
      REQUIRE(text_of(folder.path() / file) == before);
    }
    // Its own result of the last time, and an empty file.
    std::string const own = number == 0 ? "t.h5" : "own-" + std::to_string(number);
    ++number;
    folder.write(own, "");
    for (int i = 0; i < 2; ++i) REQUIRE(run_stagecraft(with(path(own))).exit_code == 0);
    REQUIRE(text_of(folder.path() / own).size() > 100);
  }
}

TEST_CASE("what a command reads is not replaced, whatever its kind", "[cli]") {
  TemporaryFolder const folder;
  std::string const software = folder.write(
      "software.yaml", text_of(STAGECRAFT_SOURCE_DIR "/configs/software/megatron-2022.yaml"));
  require_refusal("plan " STAGECRAFT_SOURCE_DIR
                  "/configs/models/gpt-22b.yaml --system selene-a100 "
                  "--gpus 8 --global-batch 4 --software '" +
                      software + "' -o '" + software + "'",
                  {"which is read; accepted: another file"});
  std::string const system = folder.write("system.yaml", "base: selene-a100\n");
  std::string const data = folder.write("d.csv", "batch.micro,measured.iteration_seconds\n1,1\n");
  require_refusal(
      "fit '" + data + "' --system '" + system + "' -o '" + folder.path().string() + "'",
      {"system.yaml', which is read"});
}

}  // namespace stagecraft
