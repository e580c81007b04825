#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// Bytes that a block keeps from forward to backward, by the name of the buffer.
inline std::map<std::string, std::int64_t> kept_buffers(BlockProgram const& block) {
  std::map<std::string, std::int64_t> kept;
  for (BufferLife const& life : block.lives) {
    if (!life.is_saved()) continue;
    Tensor const& tensor = block.tensor(life.buffer);
    kept[to_string(tensor.name)] += tensor.bytes().count();
  }
  return kept;
}

/// The part of them that belongs to norm statistics, which the paper's closed forms neglect.
inline std::int64_t statistics_bytes(BlockProgram const& block) {
  std::int64_t sum = 0;
  for (auto const& [name, bytes] : kept_buffers(block)) {
    if (name.ends_with(".statistics")) sum += bytes;
  }
  return sum;
}

}  // namespace stagecraft
