#include "libsim/hardware/key_texts.hpp"

#include <fmt/format.h>

#include "libsim/hardware/software_keys.hpp"
#include "libsim/hardware/system_keys.hpp"

namespace stagecraft {

/// What a constant accepts, by its type and the bounds of its key.
template <typename Value>
std::string accepted_text(Sourced<Value> const& /*constant*/, Key const& key) {
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
  return range_text(key.range);
}

namespace {

template <typename Constants>
KeyLister::List list_of() {
  KeyLister::List list;
  KeyLister lister{list, {}, KeyLister::LeftOut::is_inherited};
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
