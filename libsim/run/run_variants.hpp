#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "libsim/config/yaml_tree.hpp"
#include "libsim/run/run_config.hpp"

namespace stagecraft {

/// A key of a run file and a value for it.
struct Setting {
  std::string key;  ///< dotted
  YamlNode value;
  Place place;  ///< of the key
};

/// Runs that differ in some keys from one run file, which is read once. Threads may share it.
class RunVariants {
 public:
  /// `base`: the tree of a run file, which may lack keys that all variants set. Files that it names
  /// are looked for in `folder` and read here; problems go to `diagnostics`.
  RunVariants(YamlNode base, std::filesystem::path const& folder, Diagnostics& diagnostics);

  /// The base with the settings made in their order, each as `--set` would.
  /// Pre: no setting names a file (see open_setting).
  /// \throws ConfigError  with every problem of the variant.
  RunConfig with(std::span<Setting const* const> settings) const;

  /// The base, the files that it names in place.
  YamlNode const& base() const { return base_; }

 private:
  YamlNode base_;
};

/// Puts the file that a setting of `model` or `system` names, relative to `folder`, in its place.
void open_setting(Setting& setting, std::filesystem::path const& folder, Diagnostics& diagnostics);

/// `schedule` and `recompute` may be written as one word: of which key below it that is.
/// Empty for all other sections.
std::string_view word_key_of(std::string_view section);

}  // namespace stagecraft
