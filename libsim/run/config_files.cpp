#include "libsim/run/config_files.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "libsim/config/override.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/model/model_config_reader.hpp"
#include "libsim/run/base_file.hpp"
#include "libsim/run/collectives_file.hpp"
#include "libsim/run/file_kind.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/run/run_tree.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft {
namespace {

void require_kind(YamlNode const& root, FileKind wanted, Diagnostics& diagnostics) {
  if (auto problem = wrong_kind(root, wanted, "")) diagnostics.add(std::move(*problem));
  diagnostics.throw_if_any();
}

/// The tree of a model, system or software file, with what it inherits.
YamlNode load_with_base(std::filesystem::path const& path,
                        FileKind kind,
                        std::string const& folder,
                        Diagnostics& diagnostics) {
  auto root = parse_named_file(path.string(), folder, {}, Place{}, "", diagnostics);
  diagnostics.throw_if_any();
  require_kind(*root, kind, diagnostics);
  std::filesystem::path const file = named_file(path.string(), folder, {});
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

bool is_override(Place const& place) { return place.origin && place.origin->starts_with("--set "); }

/// The problems of a run whose file alone has none: what is wrong in the file is wrong for the
/// overrides, those whose keys the problem names if it names any.
std::vector<Problem> placed_at(std::vector<Problem> problems,
                               std::vector<std::string> const& overrides) {
  for (Problem& problem : problems) {
    if (is_override(problem.place)) continue;
    std::string all;
    std::string named;
    for (std::string const& text : overrides) {
      std::string const key = text.substr(0, text.find('='));
      bool const is_named = problem.accepted.find(key) != std::string::npos || problem.key == key;
      all += (all.empty() ? "" : " ") + ("--set " + printable(text));
      if (is_named) named += (named.empty() ? "" : " ") + ("--set " + printable(text));
    }
    if (!problem.found.empty() && problem.place.line > 0) {
      problem.found += " of " + to_string(problem.place);
    }
    problem.place = {std::make_shared<std::string const>(named.empty() ? all : named)};
  }
  return problems;
}

/// Reads a run with `read(overrides)`. A problem is placed at the overrides if the file alone has none.
template <typename Read>
RunConfig with_overrides(std::vector<std::string> const& overrides, Read const& read) {
  try {
    return read(overrides);
  } catch (ConfigError const& error) {
    bool const is_in_file = !std::ranges::all_of(
        error.problems(), [](Problem const& problem) { return is_override(problem.place); });
    if (overrides.empty() || !is_in_file) throw;
    try {
      read({});
    } catch (ConfigError const&) {
      throw error;
    }
    throw ConfigError{placed_at(error.problems(), overrides)};
  }
}

}  // namespace

RunConfig load_run_config(std::filesystem::path const& path,
                          std::vector<std::string> const& overrides) {
  return with_overrides(overrides, [&](std::vector<std::string> const& chosen) {
    Diagnostics diagnostics;
    auto root = parse_yaml_file(path, Place{}, "", diagnostics);
    return read_run_config(std::move(root), path.parent_path(), chosen, std::move(diagnostics));
  });
}

RunConfig parse_run_config(std::string_view text,
                           std::filesystem::path const& origin,
                           std::vector<std::string> const& overrides) {
  return with_overrides(overrides, [&](std::vector<std::string> const& chosen) {
    Diagnostics diagnostics;
    auto root = parse_yaml(text, origin.string(), diagnostics);
    return read_run_config(std::move(root), origin.parent_path(), chosen, std::move(diagnostics));
  });
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
