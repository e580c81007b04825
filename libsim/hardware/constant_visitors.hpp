#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/section_reader.hpp"
#include "libsim/config/section_writer.hpp"
#include "libsim/hardware/constant_values.hpp"
#include "libsim/hardware/measured_device_reader.hpp"
#include "libsim/hardware/misplaced_keys.hpp"
#include "libsim/hardware/sourced.hpp"

namespace stagecraft {

/// The visitor that fills a struct of constants, such as a System, from a section of a
/// configuration.
class ConstantReader {
 public:
  explicit ConstantReader(ConfigNode const& node) : reader_{node} {}

  void text(std::string_view key, std::string& field, Need need) {
    reader_.value(key, field, need);
  }
  void boolean(std::string_view key, bool& field) { reader_.value(key, field); }

  template <typename Visit>
  void section(std::string_view key, Visit visit) {
    section(key, Need::required, visit);
  }
  template <typename Visit>
  void section(std::string_view key, Need need, Visit visit) {
    ConfigNode const node = reader_.take(key);
    if (!node.exists() && need == Need::required && node.is_sound()) node.report("a map");
    ConstantReader below{node};
    visit(below);
    below.name_misplaced(key);
    below.finish();
  }

  template <typename Fields, typename Visit>
  void optional_section(std::string_view key, std::optional<Fields>& fields, Visit visit) {
    ConfigNode const node = reader_.take(key);
    if (!node.exists()) return;
    ConstantReader below{node};
    visit(below, fields.emplace());
    below.finish();
  }

  template <typename Value, typename... Range>
  void constant(std::string_view key, Sourced<Value>& field, Range... range) {
    read_any(reader_.take(key), field, range...);
  }

  /// One that may be left out.
  template <typename Value, typename... Range>
  void optional_constant(std::string_view key, Sourced<Value>& field, Range... range) {
    ConfigNode const node = reader_.take(key);
    if (node.exists()) read_any(node, field, range...);
  }

  /// Names the keys that are meant by those which users look for in a section.
  void name_misplaced(std::string_view section) {
    for (MisplacedKey const& misplaced : misplaced_keys) {
      if (misplaced.section == section) reader_.synonym(misplaced.key, misplaced.meant);
    }
  }

  void finish() const { reader_.finish(); }

 private:
  /// Says where a value was given. If an override changes a part of it, that is the override.
  static std::string given_in(ConfigNode node) {
    while (node.is_map() && node.is_overridden()) {
      std::vector<ConfigNode> const entries = node.entries();
      auto const changed = std::ranges::find_if(
          entries, [](ConfigNode const& entry) { return entry.is_overridden(); });
      if (changed == entries.end()) break;
      node = *changed;
    }
    return std::string{given_source} + (node.place().origin ? *node.place().origin : "a text");
  }

  /// A value alone, or a map with the value and its provenance.
  template <typename Value, typename... Range>
  static void read_any(ConfigNode const& node, Sourced<Value>& field, Range... range) {
    if (node.is_map() && (node.child("value").exists() || node.child("source").exists())) {
      read_constant(node, field, range...);
    } else {
      read_value(node, field.value, range...);
      field.source = given_in(node);
    }
  }

  template <typename Value, typename... Range>
  static void read_constant(ConfigNode const& node, Sourced<Value>& field, Range... range) {
    SectionReader constant{node};
    ConfigNode const value = constant.take("value");
    ConfigNode const source = constant.take("source");
    ConfigNode const fitted = constant.take("fitted");
    constant.value("spread", field.spread,
                   NumberRange{.lower = 1e-3, .upper = 10, .includes_upper = true});
    constant.finish();
    read_value(value, field.value, range...);
    // Provenance is that of a value: a new value without a new source has none but the user.
    bool const is_changed = value.is_overridden() && !source.is_overridden();
    if (!source.exists() || is_changed) {
      field.source = given_in(value);
      field.fitted.clear();
      return;
    }
    field.source = source.text().value_or("");
    if (fitted.exists() && !fitted.reads("no") && !fitted.reads("false")) {
      if (fitted.reads("yes") || fitted.reads("true")) {
        fitted.report("no, or on what it was fitted");
      } else {
        field.fitted = fitted.text().value_or("");
      }
    }
  }

  SectionReader reader_;
};

/// The visitor that writes a struct of constants as ConstantReader reads it.
class ConstantWriter {
 public:
  nlohmann::ordered_json const& map() const { return writer_.map(); }

  void text(std::string_view key, std::string const& field, Need) { writer_.value(key, field); }
  void boolean(std::string_view key, bool field) { writer_.value(key, field); }

  template <typename Visit>
  void section(std::string_view key, Visit visit) {
    section(key, Need::required, visit);
  }
  template <typename Visit>
  void section(std::string_view key, Need, Visit visit) {
    ConstantWriter below;
    visit(below);
    if (!below.map().empty()) writer_.put(key, below.map());
  }

  template <typename Fields, typename Visit>
  void optional_section(std::string_view key, std::optional<Fields> const& fields, Visit visit) {
    if (!fields) return;
    ConstantWriter below;
    visit(below, *fields);
    writer_.put(key, below.map());
  }

  template <typename Value, typename... Range>
  void constant(std::string_view key, Sourced<Value> const& field, Range...) {
    nlohmann::ordered_json constant;
    constant["value"] = value_json(field.value);
    constant["source"] = field.source;
    if (field.fitted.empty()) {
      constant["fitted"] = false;
    } else {
      constant["fitted"] = field.fitted;
    }
    if (field.spread > 0) constant["spread"] = field.spread;
    writer_.put(key, constant);
  }

  template <typename Value, typename... Range>
  void optional_constant(std::string_view key, Sourced<Value> const& field, Range... range) {
    if (!field.source.empty()) constant(key, field, range...);
  }

 private:
  SectionWriter writer_;
};

}  // namespace stagecraft
