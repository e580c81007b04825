#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"

namespace stagecraft {

/// A YAML document as a plain tree in which every node knows its place. The keys of a map are
/// distinct scalars in the order of the file.
struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, sequence, map };

  Kind kind = Kind::null;
  std::string text;     ///< scalar: its characters
  bool quoted = false;  ///< scalar: written in quotes or as a block, hence a text even if it is `8`
  std::vector<YamlNode> items;  ///< sequence: its elements; map: its values
  std::vector<YamlNode> keys;   ///< map: the key of each value
  Place place;
  bool is_override = false;  ///< set by an override (see set_key), not by the file around it

  YamlNode const* find(std::string_view key) const;
  YamlNode* find(std::string_view key);
  /// Adds an entry to a map and returns its value.
  YamlNode& add_entry(YamlNode key, YamlNode value);
};

/// Limits of a file, far above any configuration that a person writes.
inline constexpr std::size_t largest_yaml_file = std::size_t{1} << 20;  ///< bytes
inline constexpr std::size_t deepest_yaml_nesting = 32;                 ///< maps and lists
inline constexpr std::size_t most_aliased_values = 100'000;  ///< copied by aliases and merges

/// Parses one YAML document. `origin` names the file in messages.
///
/// An alias is a copy of what its anchor names. `<<: *name`, or a list of such, adds the entries
/// that its map does not have itself.
///
/// Beyond YAML's own rules these are problems too: more than one document, duplicate keys, keys
/// that are not scalars, tags, bytes that are not UTF-8 text, nesting or size beyond the limits
/// above. Returns nullopt if the tree could not be built; `diagnostics` then says why.
std::optional<YamlNode> parse_yaml(std::string_view text,
                                   std::string const& origin,
                                   Diagnostics& diagnostics);

/// Reads and parses a file. `origin` names it in messages; a file that cannot be opened, is a folder
/// or is too large is a problem at `referrer`, where the user named it, with `key` (both are empty
/// on the command line).
std::optional<YamlNode> parse_yaml_file(std::filesystem::path const& path,
                                        Place const& referrer,
                                        std::string const& key,
                                        Diagnostics& diagnostics);

}  // namespace stagecraft
