#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/libexec/cuda_ptx/program.hpp"

namespace stagecraft::ptx {

/// Where a name's memory is.
struct Symbol {
  Space space;
  std::uint64_t address;
};

/// A register or a constant, as an operand names it.
struct Operand {
  Slot slot;
  Type type;
};

/// An address: a register or a constant, and an offset from it.
struct AddressOperand {
  Slot slot;
  bool is_wide;  ///< 64 bits
  std::int64_t offset;
};

/// Turns a kernel of a module into a program. Calls are replaced by the body of what they call, so
/// that there is no stack; recursion has no end and is refused.
class Decoder {
 public:
  Decoder(Module const& module, std::map<std::string, std::uint64_t> const& global_addresses);

  /// \throws SourceError
  Program decode(Function const& entry);

  // What makers of instructions ask. All throw SourceError.

  /// A register, a constant or a special register of exactly so many bits.
  Slot value(std::string_view operand, int bits);
  /// A register that is written, of exactly so many bits; `_` is nowhere.
  Slot result(std::string_view operand, int bits);
  /// Whatever register or constant it is; a constant gets so many bits.
  Operand any(std::string_view operand, int constant_bits);
  /// "[%rd1+16]"
  AddressOperand address(std::string_view operand);

 private:
  struct Scope {
    std::map<std::string, Operand, std::less<>> registers{};
    std::map<std::string, Type, std::less<>> families{};  ///< "%r" of "%r<5>"
    std::map<std::string, Symbol, std::less<>> symbols{};
    bool is_function = false;  ///< names of the caller are not seen
  };

  void place_shared(Function const& entry);
  void place_shared(Variable const& variable);
  void declare(Statement const& statement);
  void declare(Variable const& variable);
  void body(Function const& function);
  void instruction(Statement const& statement, int end_label);
  void call(Statement const& statement);
  int label(std::string const& name);
  Slot new_slot(Type type);
  Slot constant(std::uint64_t bits, int width);
  std::uint64_t own_memory(Variable const& variable);
  Operand const* find_register(std::string_view name);
  Symbol const* find_symbol(std::string_view name) const;

  Module const& module_;
  std::map<std::string, std::uint64_t> const& global_addresses_;
  Program program_{};
  std::vector<Scope> scopes_{};
  std::map<std::string, int> opcodes_{};
  std::map<std::pair<std::uint64_t, int>, Slot> constants_{};
  std::vector<int> labels_{};                                ///< places in the code, by number
  std::vector<std::map<std::string, int>> label_numbers_{};  ///< of each function being decoded
  std::vector<std::string> calls_{};                         ///< being decoded
};

}  // namespace stagecraft::ptx
