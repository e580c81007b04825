#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "libsim/program/op_attributes.hpp"

namespace stagecraft {

/// What an op computes. op_kinds.def lists the operands of each kind and the devices that have a
/// kernel for it.
enum class OpKind : std::uint8_t {
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel) kind,
#include "libsim/program/op_kinds.def"
};

/// The class of an op decides how it is scheduled, and who runs it.
enum class OpClass : std::uint8_t {
  compute,          ///< a kernel on the compute stream
  collective,       ///< a transfer among the ranks of a group
  synchronisation,  ///< costs no time of its own
  step,             ///< a sweep over flat ranges of the rank's gradients or optimizer state
};

/// One line of op_kinds.def.
struct OpKindTraits {
  static constexpr std::size_t unlimited = 255;
  static constexpr std::size_t most_in_place = 4;

  std::string_view name;
  OpClass op_class = OpClass::compute;
  std::size_t attributes = 0;  ///< index of the alternative in OpAttributes
  std::size_t least_reads = 0;
  std::size_t most_reads = 0;
  std::size_t least_writes = 0;
  std::size_t most_writes = 0;
  /// For each operand written, the operand read that it shares a buffer with; -1: none.
  std::array<std::int8_t, most_in_place> in_place{-1, -1, -1, -1};

  constexpr OpKindTraits(std::string_view kind_name,
                         OpClass of_class,
                         std::size_t attributes_index,
                         std::string_view operands)
      : name{kind_name}, op_class{of_class}, attributes{attributes_index} {
    std::array<std::string_view, 8> read_roles{};
    bool is_written = false;
    while (!operands.empty()) {
      std::string_view const role = operands.substr(0, operands.find(' '));
      operands.remove_prefix(role.size() < operands.size() ? role.size() + 1 : role.size());
      if (role == "->") {
        is_written = true;
        continue;
      }
      std::size_t& least = is_written ? least_writes : least_reads;
      std::size_t& most = is_written ? most_writes : most_reads;
      if (role.ends_with("...")) {
        most = unlimited;
        continue;
      }
      if (is_written) {
        for (std::size_t i = 0; i < most_reads; ++i) {
          if (read_roles[i] == role) in_place.at(most) = static_cast<std::int8_t>(i);
        }
      } else {
        read_roles.at(most) = role;
      }
      ++most;
      if (role.front() != '[') ++least;
    }
  }
};

inline constexpr std::array op_kind_traits{
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel)      \
  OpKindTraits{#kind, OpClass::op_class, OpAttributes{std::in_place_type<attributes>}.index(), \
               operands},
#include "libsim/program/op_kinds.def"
};

inline constexpr std::size_t op_kind_count = op_kind_traits.size();

/// Every kind, in the order of op_kinds.def.
inline constexpr std::array<OpKind, op_kind_count> op_kinds{
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel) \
  OpKind::kind,
#include "libsim/program/op_kinds.def"
};

/// \throws std::out_of_range  if `kind` is not one of op_kinds.def.
constexpr OpKindTraits const& traits_of(OpKind kind) {
  return op_kind_traits.at(static_cast<std::size_t>(kind));
}

constexpr std::string_view name_of(OpKind kind) { return traits_of(kind).name; }

constexpr bool is_collective(OpKind kind) {
  return traits_of(kind).op_class == OpClass::collective;
}

}  // namespace stagecraft
