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
    using Held = HeldBy<Field>;
    KeyFlag const& flag = key.flag;
    if constexpr (HasKeys<std::remove_reference_t<Field>, FlagReader>) {
      visit_keys(*this, field);
    } else if constexpr (std::same_as<Held, bool>) {
      if (!flag.name.empty() && arguments_.has(flag.name)) field = flag.word == "true";
    } else if constexpr (NamedEnum<Held>) {
      if (!flag.name.empty() && arguments_.has(flag.name)) field = *value_named<Held>(flag.word);
    } else if constexpr (std::is_arithmetic_v<Held>) {
      if (flag.name.empty()) return;
      if (flag.left_out) field = static_cast<Held>(*flag.left_out);
      if constexpr (std::integral<Held>) {
        if (auto const value = arguments_.integer(flag.name, key.whole)) {
          field = static_cast<Held>(*value);
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
