#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/key.hpp"
#include "libsim/units/enum_names.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A key of a system, software or run file, for those who write one.
struct KeyText {
  std::string_view key;      ///< dotted, such as "network.bandwidth"
  std::string_view accepts;  ///< "a rate", "a time"
  std::string_view meaning;  ///< a sentence or more
  /// The default as `--print-config` writes it, what it is taken from, or "required". Empty in
  /// system and software files, whose keys are all inherited or say it themselves.
  std::string_view fallback{};
  bool is_open = false;  ///< whether a value must be given, or follows from other keys
  Tried change{};
  KeyFlag flag{};
  NotInMegatron gap{};
};

/// The text of a value in errors and on command lines: words and true or false as they are.
inline std::string text_of(nlohmann::ordered_json const& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// The place in a document of what a dotted key names: `parallel.tensor` is at `/parallel/tensor`.
inline nlohmann::ordered_json::json_pointer pointer_to(std::string_view key) {
  std::string path = "/" + std::string{key};
  for (char& c : path) c = c == '.' ? '/' : c;
  return nlohmann::ordered_json::json_pointer{path};
}

/// The real numbers that a key accepts.
inline std::string range_text(NumberRange const& range) {
  std::ostringstream text;
  text << range.lower << (range.includes_upper ? " to " : " to below ") << range.upper;
  return text.str();
}

/// Collects all keys of a section, in the order in which it is printed.
class KeyLister : public KeyVisitor<KeyLister> {
 public:
  struct List {
    std::vector<KeyText> keys;
    std::deque<std::string> texts;  ///< to which some of them refer
  };

  /// Whether a key that is left out has a default, or is inherited from another file.
  enum class LeftOut : std::uint8_t { has_default, is_inherited };

  /// `list` must outlive this object.
  explicit KeyLister(List& list, std::string prefix = {}, LeftOut left_out = LeftOut::has_default)
      : list_{list}, prefix_{std::move(prefix)}, left_out_{left_out} {}

  static constexpr bool lists = true;
  bool takes(bool /*is_used*/) const { return true; }

  template <typename Field>
  void key(Key const& key, Field&& field) {
    using Held = HeldBy<Field>;
    if constexpr (requires { accepted_text(field); }) {
      add(key, accepted_text(field), {}, false);
    } else if (!key.meaning.empty()) {
      if constexpr (requires { accepted_text(field, key); }) {
        add(key, accepted_text(field, key), {}, false);
      } else {
        add(key, accepted<Held>(key), written(field), std::is_arithmetic_v<Held>);
      }
    }
    KeyLister below{list_, prefix_ + std::string{key.name} + ".", left_out_};
    if constexpr (HasKeys<std::remove_reference_t<Field>, KeyLister>) {
      visit_keys(below, field);
    } else if constexpr (HasKeys<Held, KeyLister>) {
      Held value{};
      visit_keys(below, value);
    }
  }
  void key_apart(Key const& key) { add(key, {}, {}, false); }

 private:
  template <typename Value>
  static std::string accepted(Key const& key) {
    if constexpr (std::same_as<Value, bool>) return "true or false";
    if constexpr (NamedEnum<Value>) return accepted_names<Value>();
    if constexpr (std::same_as<Value, Bytes>) return "a size";
    if constexpr (std::same_as<Value, std::string>) return "text";
    if constexpr (std::floating_point<Value>) return range_text(key.range);
    return std::integral<Value> ? "a whole number" : "a number";
  }

  template <typename Field>
  static std::string written(Field const& field) {
    if constexpr (NamedEnum<Field>) return std::string{name_of(field)};
    if constexpr (std::is_arithmetic_v<Field>) return nlohmann::json(field).dump();
    return {};
  }

  std::string_view keep(std::string text) { return list_.texts.emplace_back(std::move(text)); }

  void add(Key const& key, std::string accepts, std::string written, bool is_number) {
    bool const has_default = left_out_ == LeftOut::has_default;
    bool const is_required = key.need == Need::required;
    list_.keys.push_back({.key = keep(prefix_ + std::string{key.name}),
                          .accepts = key.accepts.empty() ? keep(std::move(accepts)) : key.accepts,
                          .meaning = key.meaning,
                          .fallback = !key.fallback.empty() ? key.fallback
                                      : !has_default        ? std::string_view{}
                                      : is_required         ? "required"
                                                            : keep(std::move(written)),
                          .is_open = key.depends || (has_default && is_number && is_required),
                          .change = key.change,
                          .flag = key.flag,
                          .gap = key.gap});
  }

  List& list_;
  std::string prefix_;
  LeftOut left_out_;
};

}  // namespace stagecraft
