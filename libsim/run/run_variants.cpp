#include "libsim/run/run_variants.hpp"

#include <utility>

#include "libsim/config/override.hpp"
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
  return read_run_tree(root, std::move(diagnostics));
}

void open_setting(Setting& setting, std::filesystem::path const& folder, Diagnostics& diagnostics) {
  open_reference(setting.value, setting.key, folder, diagnostics);
}

std::string_view word_key_of(std::string_view section) {
  auto const found = run_word_keys().find(section);
  return found == run_word_keys().end() ? std::string_view{} : found->second;
}

}  // namespace stagecraft
