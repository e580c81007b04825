#include "tests/cli/command_results.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "tests/cli/run_program.hpp"

namespace stagecraft {

std::string paper_run(std::string const& name) {
  return "'" STAGECRAFT_SOURCE_DIR "/configs/paper/" + name + ".yaml'";
}

namespace {

/// What a program said, without the notes of its progress that it writes every ten seconds.
std::string without_progress(std::string const& said) {
  std::string rest;
  std::istringstream lines{said};
  for (std::string line; std::getline(lines, line);) {
    bool const is_progress = line.starts_with("note: ") &&
                             (line.ends_with(" %") || line.find(" %, ") != std::string::npos);
    if (!is_progress) rest += line + '\n';
  }
  return rest;
}

}  // namespace

nlohmann::json json_of(std::string const& arguments) {
  ProgramResult const result = run_stagecraft(arguments);
  INFO(arguments << '\n' << result.errors);
  REQUIRE(result.exit_code == 0);
  // Only that a system is not validated may be said beside a result, and how far a long search is.
  std::string const said = without_progress(result.errors);
  bool const is_silent = said.empty() || (said.find("is not validated") != std::string::npos &&
                                          std::count(said.begin(), said.end(), '\n') == 1);
  REQUIRE(is_silent);
  return nlohmann::json::parse(result.output);
}

void require_refusal(std::string const& arguments, std::vector<std::string> const& parts) {
  CAPTURE(arguments);
  ProgramResult const result = run_stagecraft(arguments);
  REQUIRE(result.exit_code == 2);
  REQUIRE(result.output.empty());
  for (std::string const& part : parts) REQUIRE_THAT(result.errors, Catch::Contains(part));
}

std::string text_of(std::filesystem::path const& file) {
  std::ifstream stream{file, std::ios::binary};
  REQUIRE(stream);
  return {std::istreambuf_iterator<char>{stream}, {}};
}

std::string in_one_line(std::string const& text) {
  std::istringstream stream{text};
  std::string line;
  for (std::string word; stream >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::vector<std::string> keys_of(nlohmann::json const& object) {
  std::vector<std::string> keys;
  for (auto const& [key, value] : object.items()) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "stagecraft-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"could not make a folder"};
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(std::string const& name, std::string const& text) const {
  std::filesystem::path const file = path_ / name;
  std::ofstream{file, std::ios::binary} << text;
  return file.string();
}

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> names;
  for (auto const& entry : std::filesystem::directory_iterator{path_}) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string replicated_run(TemporaryFolder const& folder,
                           std::string const& rate,
                           int microbatches) {
  std::string const link = "{value: {latency: 0 us, bandwidth: " + rate + "}, source: invented}";
  return "'" +
         folder.write(
             "run.yaml",
             "model: {layers: 6, hidden: 1024, heads: 8, sequence: 512, vocabulary: 1024,\n"
             "        norm: rmsnorm, positions: rotary, tied_embeddings: false, biases: "
             "false, dropout: 0,\n"
             "        attention: flash, causal_mask: none, precision: bf16}\n"
             "system: {base: dgx-h100, node: {all_gather: " +
                 link + ", reduce_scatter: " + link +
                 "}}\n"
                 "parallel: {tensor: 1, data: 8}\n"
                 "batch: {global: " +
                 std::to_string(8 * microbatches) + ", micro: 1}\n") +
         "' ";
}

}  // namespace stagecraft
