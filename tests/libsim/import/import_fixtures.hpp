#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/model/model_config_reader.hpp"

namespace stagecraft {

inline std::filesystem::path const fixtures =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "tests" / "libsim" / "import";

/// The config.json of a public model, its facts typed in.
inline std::filesystem::path config_file(std::string const& name) {
  return fixtures / "configs" / (name + ".json");
}

inline std::string text_of_file(std::filesystem::path const& path) {
  std::ifstream stream{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

/// A text with every line two blanks further to the right.
inline std::string indented(std::string const& text) {
  std::string result = "  ";
  for (char const c : text) result += c == '\n' ? std::string{"\n  "} : std::string{c};
  return result;
}

/// The model of a model file's text.
/// \throws ConfigError
inline ModelConfig model_of_file(std::string const& text) {
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "model.yaml", diagnostics);
  diagnostics.throw_if_any();
  ModelConfig const model = read_model_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return model;
}

}  // namespace stagecraft
