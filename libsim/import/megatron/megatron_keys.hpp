#pragma once

#include <concepts>
#include <string_view>

#include "libsim/config/key.hpp"
#include "libsim/import/megatron/megatron_arguments.hpp"

namespace stagecraft {

/// Reads the keys of a section that one flag says. A flag that is left out, or that cannot be read,
/// leaves what Megatron-LM takes without it.
class FlagReader : public KeyVisitor<FlagReader> {
 public:
  explicit FlagReader(MegatronArguments const& arguments) : arguments_{arguments} {}

  template <typename Field>
  void key(Key const& key, Field&& field) {
    using Value = value_of<Field>;
    KeyFlag const& flag = key.flag;
    if constexpr (HasKeys<std::remove_reference_t<Field>, FlagReader>) {
      visit_keys(*this, field);
    } else if constexpr (std::same_as<Value, bool>) {
      if (!flag.name.empty() && arguments_.has(flag.name)) field = flag.word == "true";
    } else if constexpr (NamedEnum<Value>) {
      if (!flag.name.empty() && arguments_.has(flag.name)) field = *value_named<Value>(flag.word);
    } else if constexpr (std::is_arithmetic_v<Value>) {
      if (flag.name.empty()) return;
      if (flag.left_out) field = static_cast<Value>(*flag.left_out);
      if constexpr (std::integral<Value>) {
        if (auto const value = arguments_.integer(flag.name, key.whole)) {
          field = static_cast<Value>(*value);
        }
      } else {
        if (auto const value = arguments_.number(flag.name, key.range)) field = *value;
      }
    }
  }

 private:
  MegatronArguments const& arguments_;
};

}  // namespace stagecraft
