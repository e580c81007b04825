#include "libsim/run/run_config.hpp"

#include <optional>
#include <system_error>
#include <utility>

#include "libsim/config/override.hpp"
#include "libsim/config/section_reader.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/model/model_config_reader.hpp"
#include "libsim/plan/training_config_reader.hpp"
#include "libsim/run/run_time_limit.hpp"

namespace stagecraft {
namespace {

/// Where a reference leads: relative to the run file; from an override also to the current folder.
std::filesystem::path resolve(YamlNode const& reference, std::filesystem::path const& folder) {
  std::filesystem::path const beside = folder / reference.text;  // absolute if the reference is
  std::error_code ignored;
  bool const is_override = reference.place.line == 0;
  return is_override && !std::filesystem::exists(beside, ignored)
             ? std::filesystem::path{reference.text}
             : beside;
}

/// Puts the file that `section` names in its place.
bool open_reference(YamlNode& section,
                    std::string const& key,
                    std::filesystem::path const& folder,
                    Diagnostics& diagnostics) {
  if ((key != "model" && key != "system") || section.kind != YamlNode::Kind::scalar) return true;
  // A text that cannot be a path would throw where it is looked up.
  if (section.text.empty() || section.text.find('\0') != std::string::npos) {
    diagnostics.add({section.place, key, "'" + printable(section.text) + "'",
                     "a map, or the name of a YAML file"});
    return false;
  }
  auto content = parse_yaml_file(resolve(section, folder), section.place, key, diagnostics);
  if (!content) {
    diagnostics.mark_unsound(key);
    return false;
  }
  section = std::move(*content);
  return true;
}

RunConfig read_run_config(std::optional<YamlNode> root,
                          std::filesystem::path const& folder,
                          std::vector<std::string> const& overrides,
                          Diagnostics diagnostics) {
  if (!root) diagnostics.throw_if_any();
  auto const open = [&](YamlNode& section, std::string const& key) {
    return open_reference(section, key, folder, diagnostics);
  };
  if (root->kind == YamlNode::Kind::map) {
    OverrideRules const rules{{{"schedule", "kind"}, {"recompute", "granularity"}}, open};
    for (std::string const& text : overrides) apply_override(*root, text, rules, diagnostics);
    for (std::string const key : {"model", "system"}) {
      if (YamlNode* const section = root->find(key)) open(*section, key);
    }
  }

  RunConfig config;
  ConfigNode const node{*root, "", diagnostics};
  SectionReader reader{node};
  for (std::string_view const key : training_sections) reader.take(key);
  ConfigNode const system = reader.take("system");
  if (node.is_map()) {
    for (std::string_view const key : {"model", "system"}) {
      ConfigNode const section = node.child(key);
      if (!section.is_map() && section.is_sound()) {
        section.report("a map, or the name of a YAML file");
      }
    }
  }
  reader.finish();
  config.training = read_training_config(node);
  config.system = read_system(system);
  check_precision(config, node);
  check_run_time(config, node);
  diagnostics.throw_if_any();
  config.warnings = diagnostics.warnings();
  return config;
}

}  // namespace

RunConfig load_run_config(std::filesystem::path const& path,
                          std::vector<std::string> const& overrides) {
  Diagnostics diagnostics;
  auto root = parse_yaml_file(path, Place{}, "", diagnostics);
  return read_run_config(std::move(root), path.parent_path(), overrides, std::move(diagnostics));
}

RunConfig parse_run_config(std::string_view text,
                           std::filesystem::path const& origin,
                           std::vector<std::string> const& overrides) {
  Diagnostics diagnostics;
  auto root = parse_yaml(text, origin.string(), diagnostics);
  return read_run_config(std::move(root), origin.parent_path(), overrides, std::move(diagnostics));
}

ModelConfig load_model_file(std::filesystem::path const& path) {
  Diagnostics diagnostics;
  auto const root = parse_yaml_file(path, Place{}, "", diagnostics);
  diagnostics.throw_if_any();
  ModelConfig model = read_model_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return model;
}

System load_system_file(std::filesystem::path const& path) {
  Diagnostics diagnostics;
  auto const root = parse_yaml_file(path, Place{}, "", diagnostics);
  diagnostics.throw_if_any();
  System system = read_system(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return system;
}

nlohmann::ordered_json to_json(RunConfig const& config) {
  nlohmann::ordered_json const training = to_json(config.training);
  nlohmann::ordered_json root;
  for (auto const& [key, section] : training.items()) {
    root[key] = section;
    if (key == "model") root["system"] = to_json(config.system);
  }
  return root;
}

std::string to_yaml(RunConfig const& config) { return yaml_text(to_json(config)); }

}  // namespace stagecraft
