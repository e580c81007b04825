#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/libexec/cuda_ptx/source.hpp"

namespace stagecraft::ptx {

struct Instruction;
struct WarpRegisters;

/// Does an instruction for the lanes of a warp whose bits are set.
using Execute = void (*)(WarpRegisters&, Instruction const&, std::uint32_t lanes);

/// Where something lies in a warp's registers, in bytes: one value for each lane side by side, or
/// for predicates one word with a bit for each lane.
using Slot = std::uint32_t;
inline constexpr Slot no_slot = std::numeric_limits<Slot>::max();

enum class Space : std::uint8_t { generic, global, shared, local, param };

/// What an instruction is to the order of a warp's threads.
enum class Flow : std::uint8_t {
  next,
  branch,
  exit,
  block_barrier,
  meeting,  ///< of the lanes that its member mask names: bar.warp.sync, shfl.sync
  aligned   ///< the whole warp or undefined: mma, ldmatrix
};

struct Instruction {
  Execute execute = nullptr;
  Flow flow = Flow::next;
  bool is_negated = false;
  Slot guard = no_slot;
  std::array<Slot, 14> slots{};  ///< results, then what is read
  std::int64_t offset = 0;       ///< of an address; else whatever the instruction keeps
  int target = 0;                ///< of a branch
  int reconvergence = -1;        ///< where lanes that a branch parts meet again; -1: nowhere

  // Of a load or store, or a conversion.
  Space space = Space::generic;
  Type type{};
  std::uint8_t count = 1;                    ///< elements of a vector
  std::array<std::uint8_t, 4> slot_bytes{};  ///< of the registers of one lane
  std::int32_t line = 0;
  std::uint16_t opcode = 0;  ///< in Program::opcodes
};

/// A kernel, ready to run.
struct Program {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::string> opcodes;
  std::vector<std::byte> registers;  ///< of a warp at its begin: constants, and poison elsewhere
  std::vector<std::pair<std::string, Slot>> special_registers;  ///< "%tid.x" and the like
  std::vector<std::size_t> parameter_offsets;
  std::vector<std::size_t> parameter_sizes;
  std::size_t parameter_bytes = 0;
  std::size_t static_shared_bytes = 0;  ///< dynamic shared memory comes after them
  std::size_t local_bytes = 0;          ///< of a thread
  unsigned max_threads = 0;
};

}  // namespace stagecraft::ptx
