#pragma once

#include <cstdint>
#include <string>

namespace stagecraft {

/// Appends a number in groups of 7 bits, the lowest first, each but the last with its top bit set.
/// Source: Protocol Buffers, "Encoding", base 128 varints.
inline void append_varint(std::string& bytes, std::uint64_t number) {
  while (number >= 0x80) {
    bytes += static_cast<char>(number | 0x80);
    number >>= 7;
  }
  bytes += static_cast<char>(number);
}

}  // namespace stagecraft
