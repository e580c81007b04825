#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/override.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// A key of a run file and a value for it.
struct Setting {
  std::string key;  ///< dotted
  YamlNode value;
  Place place;  ///< of the key
  ValueOrigin origin = ValueOrigin::override;
};

/// Runs that differ in some keys from one run file, which is read once. Threads may share an
/// object.
class RunVariants {
 public:
  /// `base` is the tree of a run file, which may lack keys that all variants set. Files that it
  /// names are looked for in `folder` and read here; problems go to `diagnostics`.
  RunVariants(YamlNode base, std::filesystem::path const& folder, Diagnostics& diagnostics);

  /// The base with the settings applied in their order, each as `--set` would.
  /// Pre: no setting names a file (see open_setting).
  /// \throws ConfigError  with every problem of the variant.
  RunConfig with(std::span<Setting const* const> settings) const;

  /// The tree that is read for it.
  YamlNode tree_with(std::span<Setting const* const> settings, Diagnostics& diagnostics) const;

  /// The base, with the contents of the files that it names in their places.
  YamlNode const& base() const { return base_; }

 private:
  YamlNode base_;
  /// What the base says of the machine, which most variants share; nullopt if it is in doubt.
  std::optional<System> machine_;
  YamlNode rest_;  ///< the base with nothing in the sections that `machine_` was read from
};

/// The base that a command line names: a run file, which may lack keys that all variants set, or
/// without a file an empty one, with overrides as load_run_config() takes them.
/// \throws ConfigError  if a file or an override cannot be read.
RunVariants load_run_variants(std::optional<std::filesystem::path> const& path,
                              std::vector<std::string> const& overrides);

/// The same of a text in memory. `origin` names it in messages; files that it names are looked for
/// in the folder of `origin`.
RunVariants parse_run_variants(std::string_view text,
                               std::filesystem::path const& origin,
                               std::vector<std::string> const& overrides);

/// Replaces a setting of `model` or `system` that names a file, relative to `folder`, by its
/// content.
void open_setting(Setting& setting, std::filesystem::path const& folder, Diagnostics& diagnostics);

/// `schedule` and `recompute` may be written as one word: the key below them whose value it is.
/// Empty for all other sections.
std::string_view word_key_of(std::string_view section);

}  // namespace stagecraft
