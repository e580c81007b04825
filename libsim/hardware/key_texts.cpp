#include "libsim/hardware/key_texts.hpp"

#include <fmt/format.h>

#include "libsim/hardware/software_keys.hpp"
#include "libsim/hardware/system_keys.hpp"

namespace stagecraft {
namespace {

/// What a constant accepts, by its type and bounds.
template <typename Value>
std::string accepted_text(Key const& key) {
  if constexpr (std::same_as<Value, std::string>) return "text";
  if constexpr (std::same_as<Value, bool>) return "true or false";
  if constexpr (std::same_as<Value, Bytes>) return "a size";
  if constexpr (std::same_as<Value, Seconds>) return "a time";
  if constexpr (std::same_as<Value, BytesPerSecond>) return "a rate";
  if constexpr (std::same_as<Value, CollectiveCost>) return "a collective";
  if constexpr (std::same_as<Value, std::map<OpKind, double>>) return "factors by kind of op";
  if constexpr (NamedEnum<Value>) return accepted_names<Value>();
  if constexpr (std::same_as<Value, int>) {
    if (key.whole.smallest == 1) return "a whole number";
    return fmt::format("{} to {}", key.whole.smallest, key.whole.largest);
  }
  return fmt::format("{} to {}{}", key.range.lower, key.range.includes_upper ? "" : "below ",
                     key.range.upper);
}

/// Collects the keys that have a meaning, those of all sections.
class ConstantLister : public KeyVisitor<ConstantLister> {
 public:
  explicit ConstantLister(KeyLister::List& list, std::string prefix = {})
      : list_{list}, prefix_{std::move(prefix)} {}

  static constexpr bool lists = true;

  template <typename Field>
  void key(Key const& key, Field& field) {
    if constexpr (is_sourced<Field>) {
      add(key, accepted_text<decltype(field.value)>(key));
    } else if constexpr (std::same_as<Field, std::string> || std::same_as<Field, bool>) {
      add(key, accepted_text<Field>(key));
    } else {
      add(key, {});
      ConstantLister below{list_, prefix_ + std::string{key.name} + "."};
      HeldBy<Field> section;
      visit_keys(below, section);
    }
  }
  void key_apart(Key const& key) { add(key, {}); }

 private:
  std::string_view keep(std::string text) { return list_.texts.emplace_back(std::move(text)); }

  void add(Key const& key, std::string accepts) {
    if (key.meaning.empty()) return;
    list_.keys.push_back({.key = keep(prefix_ + std::string{key.name}),
                          .accepts = key.accepts.empty() ? keep(std::move(accepts)) : key.accepts,
                          .meaning = key.meaning});
  }

  KeyLister::List& list_;
  std::string prefix_;
};

template <typename Constants>
KeyLister::List list_of() {
  KeyLister::List list;
  ConstantLister lister{list};
  Constants constants;
  visit_keys(lister, constants);
  return list;
}

}  // namespace

std::span<KeyText const> system_keys() {
  static KeyLister::List const list = list_of<System>();
  return list.keys;
}

std::span<KeyText const> software_keys() {
  static KeyLister::List const list = list_of<Software>();
  return list.keys;
}

}  // namespace stagecraft
