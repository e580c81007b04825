#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <sstream>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::system_command_test {

namespace {

using nlohmann::json;

std::string const systems = STAGECRAFT_SOURCE_DIR "/configs/systems/";

/// The dotted keys of a system's constants: maps that hold a value and a source.
void collect(std::set<std::string>& keys, std::string const& path, json const& map) {
  for (auto const& [key, item] : map.items()) {
    if (!item.is_object()) continue;
    if (item.contains("source")) {
      keys.insert(path + key);
    } else {
      collect(keys, path + key + ".", item);
    }
  }
}

std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream stream{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("system lists a value and a source for every constant of every system") {
  for (std::string const name : {"selene-a100", "dgx-h100", "h200"}) {
    CAPTURE(name);
    json const result = json_of("system --json '" + systems + name + ".yaml'");
    REQUIRE(result.at("name") == name);
    REQUIRE(result.at("validated").is_boolean());
    std::set<std::string> expected;
    collect(expected, "",
            json_of("simulate --json " + paper_run("22b-full") + " --set 'system=" + systems +
                    name + ".yaml' --set parallel.tensor=1 --set model.layers=1")
                .at("config")
                .at("system"));
    REQUIRE(expected.size() > 20);
    std::set<std::string> found;
    for (json const& row : result.at("constants")) {
      CAPTURE(row);
      REQUIRE_FALSE(row.at("value").get<std::string>().empty());
      REQUIRE(row.at("source").get<std::string>().size() > 5);
      REQUIRE(row.at("unit").is_string());
      REQUIRE((row.at("fitted").is_null() || row.at("fitted").is_string()));
      // A row of a constant with several values has their key after the constant's.
      std::string key = row.at("key");
      while (expected.count(key) == 0 && key.find('.') != std::string::npos) {
        key.erase(key.rfind('.'));
      }
      found.insert(key);
    }
    REQUIRE(found == expected);
  }
}

TEST_CASE("system gives the A100's data sheet, and says what was fitted on what") {
  json const result = json_of("system --json '" + systems + "selene-a100.yaml'");
  REQUIRE(result.at("validated") == true);
  std::set<std::string> fitted;
  for (json const& row : result.at("constants")) {
    if (row.at("key") == "accelerator.peak.fp16") {
      REQUIRE(row.at("value") == "312");
      REQUIRE(row.at("unit") == "TFLOP/s");
    }
    if (row.at("fitted").is_null()) continue;
    fitted.insert(row.at("key").get<std::string>());
    REQUIRE_THAT(row.at("fitted").get<std::string>(), Catch::Contains("table 4"));
  }
  REQUIRE(fitted ==
          std::set<std::string>{"calibration.gemm_efficiency", "calibration.overlap_slowdown"});
}

TEST_CASE("system says of a system without measurements that it is not validated") {
  ProgramResult const result = run_stagecraft("system '" + systems + "h200.yaml'");
  REQUIRE(result.exit_code == 0);
  REQUIRE_THAT(result.output, Catch::StartsWith("h200, not validated"));
}

TEST_CASE("system's text keeps within 100 columns and has all that its JSON has") {
  for (std::string const name : {"selene-a100", "dgx-h100", "h200"}) {
    CAPTURE(name);
    std::string const command = "system '" + systems + name + ".yaml'";
    std::string const text = run_stagecraft(command).output;
    for (std::string const& line : lines_of(text)) REQUIRE(line.size() <= 100);
    std::string const words = in_one_line(text);
    json const described = json_of(command + " --json");
    for (json const& row : described.at("constants")) {
      CAPTURE(row);
      REQUIRE_THAT(text, Catch::Contains(row.at("key").get<std::string>()));
      REQUIRE_THAT(words, Catch::Contains(row.at("value").get<std::string>()));
      std::string const source = in_one_line(row.at("source"));
      REQUIRE_THAT(words, Catch::Contains("] " + source));
      bool const is_fitted = row.at("fitted").is_string();
      if (is_fitted) REQUIRE_THAT(words, Catch::Contains(row.at("fitted").get<std::string>()));
    }
  }
}

TEST_CASE("system --keys explains the keys of a system file, and configs/KEYS.md has the same") {
  json const keys = json_of("system --keys --json").at("keys");
  REQUIRE(keys.size() > 30);
  std::string const text = in_one_line(run_stagecraft("system --keys").output);
  std::string const stack = in_one_line(run_stagecraft("software --keys").output);
  std::string const page = in_one_line(text_of(STAGECRAFT_SOURCE_DIR "/configs/KEYS.md"));
  REQUIRE_THAT(page, Catch::Contains(text));
  REQUIRE_THAT(page, Catch::Contains(stack));
  for (json const& key : keys) {
    REQUIRE_THAT(text, Catch::Contains(key.at("key").get<std::string>() + ": "));
    REQUIRE_THAT(text, Catch::Contains(key.at("meaning").get<std::string>()));
  }
}

TEST_CASE("software lists what a stack gives, with what it inherits") {
  json const result = json_of("software nanotron-checked --json");
  REQUIRE(result.at("schema") == "stagecraft.software/1");
  REQUIRE(result.at("name") == "nanotron-checked");
  std::map<std::string, std::string> values;
  for (json const& row : result.at("constants")) {
    values[row.at("key")] =
        row.at("value").get<std::string>() + " " + row.at("unit").get<std::string>();
  }
  // What is fitted may be fitted again; nanotron accumulates with 12 bytes per element.
  REQUIRE_THAT(values.at("host.collective_per_rank"), Catch::EndsWith(" us"));
  REQUIRE(values.at("kernels.accumulation_bytes") == "12 ");
  REQUIRE_THAT(run_stagecraft("software nanotron").output, Catch::StartsWith("nanotron\n"));
}

TEST_CASE("system refuses what is no system file with exit code 2") {
  require_refusal("system", {"FILE: found no file; accepted: one system file, or a name"});
  require_refusal("system no/such.yaml",
                  {"no/such.yaml: found ", "(No such file or directory; looked for in /",
                   "accepted: a readable YAML file"});
  require_refusal("system selen-a100", {"did you mean 'selene-a100'?"});
  require_refusal("system --json " + paper_run("22b-full"),
                  {"22b-full.yaml:2:1: found a run file (", "; accepted: a system file\n"});
}

}  // namespace stagecraft::system_command_test
