#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/units/enum_names.hpp"

namespace stagecraft {

enum class ShardingKind : std::uint8_t {
  none,
  distributed_optimizer,  ///< optimizer state, as ZeRO-1 does
};

template <>
struct EnumNames<ShardingKind> {
  static constexpr std::array<std::pair<ShardingKind, std::string_view>, 2> all{
      {{ShardingKind::none, "none"},
       {ShardingKind::distributed_optimizer, "distributed_optimizer"}}};
};

/// The buffers that the ranks with the same parameters share out among themselves. Key `sharding`.
struct Sharding {
  ShardingKind kind = ShardingKind::none;

  /// Whether each rank keeps only the optimizer state of its own shard of the parameters.
  constexpr bool shares_optimizer() const { return kind == ShardingKind::distributed_optimizer; }
  friend constexpr auto operator<=>(Sharding const&, Sharding const&) = default;
};

/// The sharding for which `memory.distributed_optimizer` is the short form.
constexpr Sharding sharding_of(bool distributed_optimizer) {
  return {distributed_optimizer ? ShardingKind::distributed_optimizer : ShardingKind::none};
}

}  // namespace stagecraft
