#include "libsim/run/run_variants.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "libsim/config/override.hpp"
#include "libsim/run/base_file.hpp"
#include "libsim/run/file_kind.hpp"
#include "libsim/run/run_tree.hpp"

namespace stagecraft {
namespace {

constexpr std::array<std::string_view, 2> machine_sections{"system", "software"};

/// Whether a setting changes the machine.
bool is_of_machine(Setting const& setting) {
  std::string_view const key = setting.key;
  std::string_view const section = key.substr(0, key.find('.'));
  return std::ranges::count(machine_sections, section) > 0;
}

}  // namespace

RunVariants::RunVariants(YamlNode base,
                         std::filesystem::path const& folder,
                         Diagnostics& diagnostics)
    : base_{std::move(base)} {
  open_references(base_, folder, diagnostics);
  if (base_.kind != YamlNode::Kind::map || base_.find("system") == nullptr) return;
  Diagnostics own;
  System machine = read_machine(ConfigNode{base_, "", own});
  if (!own.problems().empty() || !own.warnings().empty()) return;
  machine_ = std::move(machine);
  rest_ = base_;
  for (std::string_view const key : machine_sections) {
    YamlNode* const section = rest_.find(key);
    if (section == nullptr) continue;
    section->keys.clear();
    section->items.clear();
  }
}

namespace {

void apply(YamlNode& root, std::span<Setting const* const> settings, Diagnostics& diagnostics) {
  OverrideRules const rules{run_word_keys(), {}};
  for (Setting const* const setting : settings) {
    set_key(root, setting->key, setting->place, setting->value, rules, diagnostics,
            setting->origin);
  }
}

}  // namespace

YamlNode RunVariants::tree_with(std::span<Setting const* const> settings,
                                Diagnostics& diagnostics) const {
  YamlNode root = base_;
  apply(root, settings, diagnostics);
  complete_software(root, diagnostics);
  return root;
}

RunConfig RunVariants::with(std::span<Setting const* const> settings) const {
  Diagnostics diagnostics;
  bool const has_machine_of_base =
      machine_ && std::ranges::none_of(
                      settings, [](Setting const* setting) { return is_of_machine(*setting); });
  if (!has_machine_of_base) {
    YamlNode const root = tree_with(settings, diagnostics);
    return read_run_tree(root, std::move(diagnostics));
  }
  YamlNode root = rest_;
  apply(root, settings, diagnostics);
  return read_run_tree(root, std::move(diagnostics), &*machine_);
}

namespace {

/// The variants of the run file `root`, without which the overrides are all there is.
RunVariants variants_of(std::optional<YamlNode> root,
                        std::filesystem::path const& folder,
                        std::vector<std::string> const& overrides,
                        Diagnostics diagnostics) {
  if (root) {
    if (auto problem = wrong_kind(*root, FileKind::run, "")) diagnostics.add(std::move(*problem));
    if (root->kind != YamlNode::Kind::map) {
      diagnostics.add({root->place, "", "no keys", "a run file"});
    }
    diagnostics.throw_if_any();
  } else {
    root.emplace();
    root->kind = YamlNode::Kind::map;
  }
  OverrideRules const rules{run_word_keys(), [&](YamlNode& section, std::string const& key) {
                              return open_reference(section, key, folder, diagnostics);
                            }};
  for (std::string const& text : overrides) apply_override(*root, text, rules, diagnostics);
  RunVariants variants{std::move(*root), folder, diagnostics};
  diagnostics.throw_if_any();
  return variants;
}

}  // namespace

RunVariants load_run_variants(std::optional<std::filesystem::path> const& path,
                              std::vector<std::string> const& overrides) {
  Diagnostics diagnostics;
  if (!path) return variants_of({}, {}, overrides, std::move(diagnostics));
  auto root = parse_yaml_file(*path, Place{}, "", diagnostics);
  diagnostics.throw_if_any();
  return variants_of(std::move(root), path->parent_path(), overrides, std::move(diagnostics));
}

RunVariants parse_run_variants(std::string_view text,
                               std::filesystem::path const& origin,
                               std::vector<std::string> const& overrides) {
  Diagnostics diagnostics;
  auto root = parse_yaml(text, origin.string(), diagnostics);
  diagnostics.throw_if_any();
  return variants_of(std::move(root), origin.parent_path(), overrides, std::move(diagnostics));
}

void open_setting(Setting& setting, std::filesystem::path const& folder, Diagnostics& diagnostics) {
  bool const was_map = setting.value.kind == YamlNode::Kind::map;
  open_reference(setting.value, setting.key, folder, diagnostics);
  if (!was_map && setting.value.kind == YamlNode::Kind::map) setting.origin = ValueOrigin::file;
}

std::string_view word_key_of(std::string_view section) {
  auto const found = run_word_keys().find(section);
  return found == run_word_keys().end() ? std::string_view{} : found->second;
}

}  // namespace stagecraft
