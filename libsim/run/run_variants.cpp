#include "libsim/run/run_variants.hpp"

#include <utility>

#include "libsim/config/override.hpp"
#include "libsim/run/base_file.hpp"
#include "libsim/run/file_kind.hpp"
#include "libsim/run/run_tree.hpp"

namespace stagecraft {

RunVariants::RunVariants(YamlNode base,
                         std::filesystem::path const& folder,
                         Diagnostics& diagnostics)
    : base_{std::move(base)} {
  open_references(base_, folder, diagnostics);
}

RunConfig RunVariants::with(std::span<Setting const* const> settings) const {
  Diagnostics diagnostics;
  YamlNode root = base_;
  OverrideRules const rules{run_word_keys(), {}};
  for (Setting const* const setting : settings) {
    set_key(root, setting->key, setting->place, setting->value, rules, diagnostics);
  }
  complete_software(root, diagnostics);
  return read_run_tree(root, std::move(diagnostics));
}

RunVariants load_run_variants(std::optional<std::filesystem::path> const& path,
                              std::vector<std::string> const& overrides) {
  Diagnostics diagnostics;
  YamlNode root;
  root.kind = YamlNode::Kind::map;
  std::filesystem::path folder;
  if (path) {
    auto content = parse_yaml_file(*path, Place{}, "", diagnostics);
    diagnostics.throw_if_any();
    root = std::move(*content);
    folder = path->parent_path();
    if (auto problem = wrong_kind(root, FileKind::run, "")) diagnostics.add(std::move(*problem));
    if (root.kind != YamlNode::Kind::map) {
      diagnostics.add({root.place, "", "no keys", "a run file"});
    }
    diagnostics.throw_if_any();
  }
  OverrideRules const rules{run_word_keys(), [&](YamlNode& section, std::string const& key) {
                              return open_reference(section, key, folder, diagnostics);
                            }};
  for (std::string const& text : overrides) apply_override(root, text, rules, diagnostics);
  RunVariants variants{std::move(root), folder, diagnostics};
  diagnostics.throw_if_any();
  return variants;
}

void open_setting(Setting& setting, std::filesystem::path const& folder, Diagnostics& diagnostics) {
  open_reference(setting.value, setting.key, folder, diagnostics);
}

std::string_view word_key_of(std::string_view section) {
  auto const found = run_word_keys().find(section);
  return found == run_word_keys().end() ? std::string_view{} : found->second;
}

}  // namespace stagecraft
