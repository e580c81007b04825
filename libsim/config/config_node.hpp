#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/units/enum_names.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {

/// Smallest and largest whole number that a key accepts.
struct IntegerRange {
  std::int64_t smallest = 0;
  std::int64_t largest = 0;
};

/// Bounds of a real number. `upper` itself is accepted only if `includes_upper`.
struct NumberRange {
  double lower = 0;
  double upper = 1;
  bool includes_upper = false;
};

/// One value of a configuration, or its absence, with its place and dotted key path.
///
/// The readers below report what they cannot read to the Diagnostics of the load and return
/// nullopt, so that a caller continues and finds the other problems too. A node refers to the tree
/// and must not outlive it.
class ConfigNode {
 public:
  ConfigNode(YamlNode const& node, std::string key, Diagnostics& diagnostics);

  std::string const& key() const { return key_; }
  Place const& place() const { return place_; }
  bool exists() const { return node_ != nullptr; }
  bool is_scalar() const { return has_kind(YamlNode::Kind::scalar); }
  bool is_sequence() const { return has_kind(YamlNode::Kind::sequence); }
  bool is_map() const { return has_kind(YamlNode::Kind::map); }
  /// Whether an override set this value or anything below it.
  bool is_overridden() const { return node_ != nullptr && is_overridden(*node_); }
  /// Whether no problem of this key is known: see Diagnostics::is_sound.
  bool is_sound() const { return diagnostics_->is_sound(key_); }

  /// Dotted path of the key `name` below this one.
  std::string key_of(std::string_view name) const;
  /// The value of `name` below this one, or a node at this place that does not exist().
  ConfigNode child(std::string_view name) const;
  /// The entries of a list; empty if this is not a list.
  std::vector<ConfigNode> items() const;
  /// The values of a map, in the order of the file.
  std::vector<ConfigNode> entries() const;
  /// The last part of the key; empty for the node that a load starts from.
  std::string const& name() const { return name_; }

  /// Whether this is the scalar `expected`.
  bool reads(std::string_view expected) const { return is_scalar() && scalar() == expected; }
  std::optional<std::string> text() const;
  /// `alternative` is what the key accepts instead of a number, such as "auto, or ".
  std::optional<std::int64_t> integer(IntegerRange range, std::string_view alternative = {}) const;
  std::optional<double> number(NumberRange range) const;
  std::optional<bool> boolean() const;

  template <typename Enum>
  std::optional<Enum> word() const {
    auto const value = is_scalar() ? value_named<Enum>(scalar()) : std::nullopt;
    if (!value) report_once(accepted_names<Enum>());
    return value;
  }

  /// The text, if `is_name` holds for it.
  template <typename Predicate>
  std::optional<std::string> name(Predicate is_name, std::string accepted) const {
    if (is_scalar() && is_name(scalar())) return std::string{scalar()};
    report_once(std::move(accepted));
    return std::nullopt;
  }

  template <typename Quantity>
  std::optional<Quantity> quantity() const {
    auto const value = is_scalar() ? parse_quantity<Quantity>(scalar()) : std::nullopt;
    if (!value) report_once(std::string{accepted_quantity<Quantity>()});
    return value;
  }

  /// The user's text in quotes, or "a map", "an empty list"; empty if there is nothing.
  std::string found() const;
  /// Reports this value as wrong, with what would be accepted.
  void report(std::string accepted) const { report(found(), std::move(accepted)); }
  void report(std::string found, std::string accepted) const;
  /// Reports the key itself as wrong, at its own place.
  void report_key(std::string found, std::string accepted) const;
  /// Reports the key as unknown.
  void report_unknown(std::string accepted) const;
  void warn(std::string_view text) const { diagnostics_->warn(place_, key_, text); }
  Diagnostics& diagnostics() const { return *diagnostics_; }

 private:
  ConfigNode(YamlNode const* node,
             std::string key,
             std::string name,
             Place place,
             Place key_place,
             Diagnostics& diagnostics);
  static bool is_overridden(YamlNode const& node);
  bool has_kind(YamlNode::Kind kind) const { return node_ != nullptr && node_->kind == kind; }
  std::string_view scalar() const { return node_->text; }
  /// A key already reported (given twice, say) is not reported again.
  void report_once(std::string accepted) const;

  YamlNode const* node_ = nullptr;
  std::string key_;
  std::string name_;
  Place place_;
  Place key_place_;
  Diagnostics* diagnostics_ = nullptr;
};

}  // namespace stagecraft
