#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::run_keys_command_test {

using nlohmann::json;

TEST_CASE("simulate --keys explains the keys of a run file, and configs/KEYS.md has the same") {
  json const document = json_of("simulate --keys --json");
  REQUIRE(document.at("schema") == "stagecraft.run_keys/1");
  std::string const listed = run_stagecraft("simulate --keys").output;
  REQUIRE_THAT(text_of(STAGECRAFT_SOURCE_DIR "/configs/KEYS.md"), Catch::Contains(listed));
  std::istringstream lines{listed};
  for (std::string line; std::getline(lines, line);) REQUIRE(line.size() <= 100);
  std::string const text = in_one_line(listed);
  for (json const& key : document.at("keys")) {
    CAPTURE(key);
    REQUIRE_THAT(text, Catch::Contains(key.at("key").get<std::string>() + ": " +
                                       key.at("accepts").get<std::string>() + "; "));
    REQUIRE_THAT(text, Catch::Contains(key.at("meaning").get<std::string>()));
    std::string const fallback = key.at("default");
    REQUIRE_THAT(text, Catch::Contains(fallback == "required" ? fallback : "default " + fallback));
  }
}

TEST_CASE("a key of the run file that is written as an option is told how to set it") {
  require_refusal("simulate " + paper_run("22b-full") + " --software nanotron",
                  {"--software: found an unknown option", "did you mean '--set software=VALUE'?"});
  require_refusal("explain " + paper_run("22b-full") + " --parallel.tensor 4",
                  {"did you mean '--set parallel.tensor=VALUE'?"});
}

TEST_CASE("fit says of one run that it bounds nothing") {
  REQUIRE_THAT(run_stagecraft("fit " + paper_run("22b-present") + " --measured 1.13s").output,
               Catch::Contains("One run gives no bound"));
}

TEST_CASE("allocator refuses a sequence without events, and comments, with what it takes") {
  TemporaryFolder const folder;
  require_refusal("allocator '" + folder.write("empty.txt", "") + "'",
                  {"FILE: found no event in '", "a memory snapshot with a history, or lines such"});
  require_refusal("allocator '" + folder.write("notes.txt", "# a run\n") + "'",
                  {":1: found '#'; accepted: a, f, r, t, d, n, F, e, q (stagecraft allocator "
                   "--help says what they do; there are no comments)"});
  REQUIRE_THAT(run_stagecraft("allocator '" + folder.write("one.txt", "a 1 512\n") + "'").output,
               Catch::Contains("\n1 allocation; 1 segment; device memory taken 1 time and given "
                               "back 0 times; 0 retries\n"));
}

TEST_CASE("a system file without a base is told that there are bases") {
  TemporaryFolder const folder;
  auto const refused = [&](std::string const& system, std::vector<std::string> const& texts) {
    require_refusal("simulate " + paper_run("22b-full") +
                        " --set 'system=" + folder.write("mine.yaml", system) + "'",
                    texts);
  };
  refused("name: mine\naccelerator: {name: X, memory: 80 GB}\n",
          {"found no base, and no section node, network, calibration; accepted: a system file: "
           "`base: dgx-h100` names the system that it changes"});
  refused("name: mine\naccelerator: {}\nnode: {}\nnetwork: {}\ncalibration: {}\n",
          {"system.accelerator.peak: missing", "system: found no base; accepted: ",
           "`base: dgx-h100` or another name of configs/systems"});
  refused("base: dgx-h100\nnics: 4\n", {"nics: found an unknown key", "'network.adapters'"});
}

TEST_CASE("a model in keys of Hugging Face is told the command that reads these") {
  require_refusal(
      "simulate " + paper_run("22b-full") +
          " --set 'model={hidden_size: 4096, num_attention_heads: 32}'",
      {"model: found keys of Hugging Face (hidden_size, num_attention_heads); accepted: ",
       "`stagecraft import huggingface config.json` makes one"});
}

}  // namespace stagecraft::run_keys_command_test
