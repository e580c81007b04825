#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "libsim/config/key.hpp"
#include "libsim/hardware/sourced.hpp"

namespace stagecraft {

/// Shows a function every constant of a system or stack: `act(dotted key, Key, Sourced)`.
///
/// Sections that may be absent, measured kernels and memory beside the allocator, are left out:
/// nobody assumes or fits them.
template <typename Act>
class ConstantVisitor : public KeyVisitor<ConstantVisitor<Act>> {
 public:
  explicit ConstantVisitor(Act const& act, std::string prefix = {})
      : act_{act}, prefix_{std::move(prefix)} {}

  template <typename Field>
  void key(Key const& key, Field& field) {
    std::string const name = prefix_ + std::string{key.name};
    if constexpr (is_sourced<std::remove_const_t<Field>>) {
      act_(name, key, field);
    } else if constexpr (HasKeys<Field, ConstantVisitor>) {
      ConstantVisitor below{act_, name + "."};
      visit_keys(below, field);
    }
  }

 private:
  Act const& act_;
  std::string prefix_;
};

}  // namespace stagecraft
