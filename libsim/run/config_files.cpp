#include "libsim/run/config_files.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "libsim/config/override.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/model/model_config_reader.hpp"
#include "libsim/run/base_file.hpp"
#include "libsim/run/collectives_file.hpp"
#include "libsim/run/file_kind.hpp"
#include "libsim/run/foreign_format.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/run/run_tree.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft {
namespace {

void require_kind(YamlNode const& root, FileKind wanted, Diagnostics& diagnostics) {
  if (auto problem = wrong_kind(root, wanted, "")) diagnostics.add(std::move(*problem));
  diagnostics.throw_if_any();
}

/// Refuses a file that is not a map, if it is recognised as that of another program.
void refuse_foreign(std::optional<YamlNode> const& root,
                    std::filesystem::path const& path,
                    std::string const& accepted) {
  if (root && root->kind == YamlNode::Kind::map) return;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;  // a pipe is read once
  std::ifstream stream{path, std::ios::binary};
  std::string text(largest_yaml_file, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  auto const format = foreign_format(text);
  if (!format) return;
  throw ConfigError{{Problem{Place{std::make_shared<std::string const>(path.string())}, "",
                             text_of(*format), accepted, true}}};
}

/// The tree of a model, system or software file, with what it inherits.
YamlNode load_with_base(std::filesystem::path const& path,
                        FileKind kind,
                        std::string const& folder,
                        Diagnostics& diagnostics) {
  auto root = parse_named_file(path.string(), folder, {}, Place{}, "", diagnostics);
  std::filesystem::path const file = named_file(path.string(), folder, {});
  refuse_foreign(root, file, "a file such as those of configs/" + folder);
  diagnostics.throw_if_any();
  require_kind(*root, kind, diagnostics);
  std::string const name = kind == FileKind::model ? "" : file.stem().string();
  apply_base(*root, "", folder, file.parent_path(), name, diagnostics);
  diagnostics.throw_if_any();
  return std::move(*root);
}

RunConfig read_run_config(std::optional<YamlNode> root,
                          std::filesystem::path const& folder,
                          std::vector<std::string> const& overrides,
                          Diagnostics diagnostics) {
  if (!root) diagnostics.throw_if_any();
  auto const open = [&](YamlNode& section, std::string const& key) {
    return open_reference(section, key, folder, diagnostics);
  };
  require_kind(*root, FileKind::run, diagnostics);
  if (root->kind == YamlNode::Kind::map) {
    OverrideRules const rules{run_word_keys(), open};
    for (std::string const& text : overrides) apply_override(*root, text, rules, diagnostics);
    open_references(*root, folder, diagnostics);
  }
  return read_run_tree(*root, std::move(diagnostics));
}

using Read = std::function<RunConfig(std::vector<std::string> const& overrides)>;

/// Whether a run with some overrides has a problem of the same key at the same place.
bool has_problem(Problem const& problem,
                 Read const& read,
                 std::vector<std::string> const& overrides) {
  try {
    read(overrides);
    return false;
  } catch (ConfigError const& error) {
    return std::ranges::any_of(error.problems(), [&](Problem const& other) {
      return other.key == problem.key && to_string(other.place) == to_string(problem.place);
    });
  }
}

/// Moves problems at lines of files that are there because of an override to that override, and
/// says where the value of the file is.
std::vector<Problem> at_overrides(std::vector<Problem> problems,
                                  Read const& read,
                                  std::vector<std::string> const& overrides) {
  for (Problem& problem : problems) {
    bool const is_in_file = problem.place.line > 0;
    if (!is_in_file || problem.stands_alone || has_problem(problem, read, {})) continue;
    for (std::string const& cause : overrides) {
      std::vector<std::string> others = overrides;
      std::erase(others, cause);
      if (!others.empty() && has_problem(problem, read, others)) continue;
      if (cause.substr(0, cause.find('=')) != problem.key) {
        problem.accepted += "; the value found is that of " + to_string(problem.place);
      }
      problem.place = {std::make_shared<std::string const>("--set " + printable(cause))};
      break;
    }
  }
  return problems;
}

/// Reads a run; problems that overrides cause are at these.
RunConfig read_with(Read const& read, std::vector<std::string> const& overrides) {
  try {
    return read(overrides);
  } catch (ConfigError const& error) {
    if (overrides.empty()) throw;
    throw ConfigError{at_overrides(error.problems(), read, overrides)};
  }
}

}  // namespace

RunConfig load_run_config(std::filesystem::path const& path,
                          std::vector<std::string> const& overrides) {
  return read_with(
      [&](std::vector<std::string> const& some) {
        Diagnostics diagnostics;
        auto root = parse_yaml_file(path, Place{}, "", diagnostics);
        refuse_foreign(root, path, "a run file");
        return read_run_config(std::move(root), path.parent_path(), some, std::move(diagnostics));
      },
      overrides);
}

RunConfig parse_run_config(std::string_view text,
                           std::filesystem::path const& origin,
                           std::vector<std::string> const& overrides,
                           OverrideProblems place) {
  auto const read = [&](std::vector<std::string> const& some) {
    Diagnostics diagnostics;
    auto root = parse_yaml(text, origin.string(), diagnostics);
    return read_run_config(std::move(root), origin.parent_path(), some, std::move(diagnostics));
  };
  return place == OverrideProblems::at_override ? read_with(read, overrides) : read(overrides);
}

ModelConfig load_model_file(std::filesystem::path const& path) {
  Diagnostics diagnostics;
  YamlNode const root = load_with_base(path, FileKind::model, "models", diagnostics);
  ModelConfig model = read_model_config(ConfigNode{root, "", diagnostics});
  diagnostics.throw_if_any();
  return model;
}

System load_system_file(std::filesystem::path const& path) {
  Diagnostics diagnostics;
  YamlNode const root = load_with_base(path, FileKind::system, "systems", diagnostics);
  ConfigNode const section{root, "", diagnostics};
  System system = read_system(section);
  open_collectives(system, section, diagnostics);
  diagnostics.throw_if_any();
  return system;
}

Software load_software_file(std::filesystem::path const& path) {
  Diagnostics diagnostics;
  YamlNode const root = load_with_base(path, FileKind::software, "software", diagnostics);
  Software software = read_software(ConfigNode{root, "", diagnostics});
  diagnostics.throw_if_any();
  return software;
}

}  // namespace stagecraft
