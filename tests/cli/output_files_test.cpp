#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::output_files_test {

// One rule for all commands: a file is replaced only by one of its kind, and if stagecraft wrote
// it.
TEST_CASE("commands replace what they wrote themselves, and refuse all other files", "[cli]") {
  TemporaryFolder const folder;
  auto const path = [&](std::string const& name) {
    return "'" + (folder.path() / name).string() + "'";
  };
  std::string const trace = path("t.h5");
  std::string const gpt =
      "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 "
      "--max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 16 --fp16";
  std::string const config =
      STAGECRAFT_SOURCE_DIR "/tests/libsim/import/configs/llama-3.1-70b.json";
  std::string const sweep = folder.write("sweep.yaml", "base: " STAGECRAFT_SOURCE_DIR
                                                       "/configs/paper/22b-present.yaml\n"
                                                       "values: {batch.micro: [1]}\n");
  std::string const models = STAGECRAFT_SOURCE_DIR "/configs/models/";
  std::vector<std::pair<std::string, std::string>> const commands{
      {"simulate " + paper_run("22b-present") + " --trace ", "a trace"},
      {"report " + trace + " -o ", "a report"},
      {"export " + trace + " --format csv -o ", "a table"},
      {"export " + trace + " --format chrome -o ", "a JSON file"},
      {"plan '" + models +
           "gpt-22b.yaml' --system selene-a100 --gpus 8 --global-batch 4 --top 1 "
           "--fix tensor=8 -o ",
       "a run file"},
      {"import megatron --world-size 4 -o OUTPUT -- " + gpt, "a run file"},
      {"import huggingface '" + config + "' -o ", "a model file"}};
  folder.write("text", "once upon a time\n");
  folder.write("data.csv", "tensor,seconds\n8,1.5\n");
  folder.write("list.json", "[1]\n");
  folder.write("docker-compose.yml", "version: '3'\n");
  folder.write("page.html", "<!DOCTYPE html>\n");
  REQUIRE(run_stagecraft("sweep '" + sweep + "' -o " + path("s.h5")).exit_code == 0);
  // By hand, or by another program: never replaced. `format`: what it is said to be to others.
  std::vector<std::pair<std::string, std::string>> const foreign{
      {"text", "a file of another kind"}, {"data.csv", "a CSV file"},
      {"list.json", "a JSON file"},       {"docker-compose.yml", "a YAML file"},
      {"page.html", "an HTML page"},      {"s.h5", "a sweep's results"}};
  std::map<std::string, std::string> results;  // of each kind, the first
  for (auto const& [command, kind] : commands) {
    INFO(command);
    auto const with = [&, of = command](std::string const& output) {
      std::size_t const at = of.find("OUTPUT");
      return at == std::string::npos ? of + output : std::string{of}.replace(at, 6, output);
    };
    auto const refuses = [&](std::string const& file, std::string const& found) {
      std::string const before = text_of(folder.path() / file);
      require_refusal(with(path(file)),
                      {"which exists and is " + found,
                       "accepted: a new file, or " + kind + " that stagecraft wrote"});
      REQUIRE(text_of(folder.path() / file) == before);
    };
    for (auto const& [file, found] : foreign) refuses(file, found);
    for (auto const& [other, file] : results) {
      if (other != kind && command.find(file) == std::string::npos) refuses(file, other);
    }
    // Its own result of the last time, and an empty file.
    std::string const own =
        results.empty() ? "t.h5" : "own-" + std::to_string(results.size()) + ".out";
    folder.write(own, "");
    for (int i = 0; i < 2; ++i) REQUIRE(run_stagecraft(with(path(own))).exit_code == 0);
    REQUIRE(text_of(folder.path() / own).size() > 100);
    results.emplace(kind, own);
  }
}

TEST_CASE("a file that someone wrote by hand is not replaced by one of its kind", "[cli]") {
  TemporaryFolder const folder;
  std::string const text = "# ours\nbase: selene-a100\n";
  std::string const system = folder.write("mine.yaml", text);
  std::string const config = folder.write(
      "config.json",
      text_of(STAGECRAFT_SOURCE_DIR "/tests/libsim/import/configs/llama-3.1-70b.json"));
  require_refusal("import huggingface '" + config + "' -o '" + system + "'",
                  {"which exists and is a YAML file that stagecraft did not write",
                   "remove the file if nobody needs it"});
  REQUIRE(text_of(system) == text);
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

TEST_CASE("what a command reads is not written over") {
  namespace fs = std::filesystem;
  fs::path const folder = fs::temp_directory_path() / "stagecraft-read-not-written";
  fs::create_directories(folder);
  fs::path const model = folder / "model.yaml";
  fs::path const run = folder / "run.yaml";
  fs::copy_file(STAGECRAFT_SOURCE_DIR "/configs/models/gpt-22b.yaml", model,
                fs::copy_options::overwrite_existing);
  std::ofstream{run} << "model: model.yaml\nsystem: " STAGECRAFT_SOURCE_DIR
                        "/configs/systems/selene-a100.yaml\nparallel: {tensor: 8}\n"
                        "batch: {global: 4, micro: 4}\n";
  std::string const no_trace =
      "which exists and is a YAML file; accepted: a new file, or a trace that stagecraft wrote";
  for (fs::path const& output : {run, model}) {
    ProgramResult const result =
        run_stagecraft("simulate '" + run.string() + "' --trace '" + output.string() + "'");
    REQUIRE(result.exit_code == 2);
    REQUIRE_THAT(result.errors, Catch::Contains(no_trace));
  }
  ProgramResult const plan =
      run_stagecraft("plan '" + model.string() +
                     "' --system " STAGECRAFT_SOURCE_DIR
                     "/configs/systems/selene-a100.yaml --gpus 8 --global-batch 8 -o '" +
                     (folder / "." / "model.yaml").string() + "'");
  REQUIRE(plan.exit_code == 2);
  REQUIRE_THAT(plan.errors, Catch::Contains("which is read"));
  ProgramResult const nowhere =
      run_stagecraft("simulate '" + run.string() + "' --trace '" + folder.string() + "/no/a.h5'");
  REQUIRE(nowhere.exit_code == 1);
  REQUIRE(nowhere.output.empty());  // refused before any work
  // A trace is replaced.
  std::string const traced =
      "simulate '" + run.string() + "' --trace '" + folder.string() + "/a.h5'";
  REQUIRE(run_stagecraft(traced).exit_code == 0);
  REQUIRE(run_stagecraft(traced).exit_code == 0);
  fs::remove_all(folder);
}

}  // namespace stagecraft::output_files_test
