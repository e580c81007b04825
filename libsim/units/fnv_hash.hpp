#pragma once

#include <cstdint>
#include <string_view>

namespace stagecraft {

/// FNV-1a of 32 bits. Source: Fowler, Noll, Vo; draft-eastlake-fnv.
constexpr std::uint32_t fnv_hash(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

}  // namespace stagecraft
