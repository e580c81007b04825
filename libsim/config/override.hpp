#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "libsim/config/yaml_tree.hpp"

namespace stagecraft {

/// What an override may find in place of a map, by key of the root.
///
/// A section that can also be written as one word (`schedule: 1f1b`) becomes the map that the word
/// stands for (`{kind: 1f1b}`); a section that can name a file becomes the content of the file.
struct OverrideRules {
  std::map<std::string, std::string, std::less<>>
      word_keys;  ///< by section: the key whose value the word is
  /// Replaces a reference to a file by its content; if it cannot, notes the problem, returns false.
  std::function<bool(YamlNode& section, std::string const& key)> open_reference;
};

/// Whether `key` consists of names with dots between them, none of them empty, and is not nested
/// deeper than any configuration.
bool is_dotted_key(std::string_view key);

/// What the tree knows of a value that is set: an override, or the content of a file that the
/// override named, of which nothing was changed.
enum class ValueOrigin : std::uint8_t { override, file };

/// Sets one key of a tree. `key` is dotted (see above) and has the place `key_place`; `value` has
/// its own place. Missing maps above the key are added; a whole section may be replaced.
void set_key(YamlNode& root,
             std::string_view key,
             Place const& key_place,
             YamlNode value,
             OverrideRules const& rules,
             Diagnostics& diagnostics,
             ValueOrigin origin = ValueOrigin::override);

/// Reads the value of an override of `key`, which is YAML; everything in it gets the place `place`.
/// Returns nullopt if there is none; `diagnostics` then says why, at that place.
std::optional<YamlNode> parse_override_value(std::string_view text,
                                             Place const& place,
                                             std::string const& key,
                                             Diagnostics& diagnostics);

/// Sets one key of a tree, as `--set KEY=VALUE` asks: KEY is dotted, VALUE is YAML. Both get the
/// place `--set KEY=VALUE`.
void apply_override(YamlNode& root,
                    std::string_view override_text,
                    OverrideRules const& rules,
                    Diagnostics& diagnostics);

}  // namespace stagecraft
