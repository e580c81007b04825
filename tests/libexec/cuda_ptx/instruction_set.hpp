#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/libexec/cuda_ptx/decoder.hpp"

namespace stagecraft::ptx {

/// One instruction as it is written, for the maker that knows it: "ld.global.v4.u32" has the name
/// "ld" and the modifiers "global", "v4", "u32". Makers take what they know; what is left is an
/// error, so that nothing is ignored.
class Form {
 public:
  Form(Decoder& decoder, Statement const& statement);

  std::string const& name() const { return name_; }
  /// Takes a modifier if it is there.
  bool take(std::string_view modifier);
  /// Takes a modifier that has to be there.
  void require(std::string_view modifier);
  /// Takes the first of these that is there.
  std::string take_one_of(std::initializer_list<std::string_view> modifiers);
  /// Takes the first modifier that is a type.
  Type take_type();
  /// Ends the taking. \throws SourceError  if something is left, or there are not so many operands
  void finish(std::size_t operands);

  std::string const& operand(std::size_t i) const;
  Slot value(std::size_t i, int bits) { return decoder_.value(operand(i), bits); }
  Slot result(std::size_t i, int bits) { return decoder_.result(operand(i), bits); }
  Decoder& decoder() { return decoder_; }

  [[noreturn]] void refuse(std::string const& why) const;

 private:
  Decoder& decoder_;
  Statement const& statement_;
  std::string name_;
  std::vector<std::string> modifiers_;
};

/// Parts of "{a, b}"; one part where there are no braces.
std::vector<std::string> parts_of(std::string const& operand);

/// Each of them makes the instruction if its name is one of its own, and says whether it is.
bool make_carry_arithmetic(Form& form, Instruction& made);  // before make_arithmetic
bool make_arithmetic(Form& form, Instruction& made);        // integers and floating point
bool make_bit_operation(Form& form,
                        Instruction& made);           // and, shl, bfi, prmt; after make_comparison
bool make_comparison(Form& form, Instruction& made);  // setp, selp, logic of predicates
bool make_conversion(Form& form, Instruction& made);  // mov, cvt, cvta
bool make_memory_access(Form& form, Instruction& made);   // ld, st
bool make_warp_operation(Form& form, Instruction& made);  // bar, shfl, ldmatrix, mma

}  // namespace stagecraft::ptx
