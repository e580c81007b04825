#include "tests/libexec/cuda_ptx/instruction_set.hpp"

#include <algorithm>
#include <sstream>

namespace stagecraft::ptx {

Form::Form(Decoder& decoder, Statement const& statement)
    : decoder_{decoder}, statement_{statement} {
  std::istringstream parts{statement.name};
  std::getline(parts, name_, '.');
  for (std::string part; std::getline(parts, part, '.');) modifiers_.push_back(part);
}

bool Form::take(std::string_view modifier) {
  auto const found = std::find(modifiers_.begin(), modifiers_.end(), modifier);
  if (found == modifiers_.end()) return false;
  modifiers_.erase(found);
  return true;
}

void Form::require(std::string_view modifier) {
  if (!take(modifier)) refuse("expected ." + std::string{modifier});
}

std::string Form::take_one_of(std::initializer_list<std::string_view> modifiers) {
  for (std::string_view const modifier : modifiers) {
    if (take(modifier)) return std::string{modifier};
  }
  refuse("an unknown kind of it");
}

Type Form::take_type() {
  auto const found = std::find_if(modifiers_.begin(), modifiers_.end(),
                                  [](std::string const& one) { return is_type(one); });
  if (found == modifiers_.end()) refuse("no type");
  Type const type = type_of(*found);
  modifiers_.erase(found);
  return type;
}

void Form::finish(std::size_t operands) {
  if (!modifiers_.empty()) refuse("an unknown modifier ." + modifiers_.front());
  if (statement_.operands.size() != operands) {
    refuse("expected " + std::to_string(operands) + " operands");
  }
}

std::string const& Form::operand(std::size_t i) const {
  if (i >= statement_.operands.size()) refuse("too few operands");
  return statement_.operands[i];
}

void Form::refuse(std::string const& why) const {
  throw SourceError{"line " + std::to_string(statement_.line) + ", " + statement_.name + ": " +
                    why};
}

std::vector<std::string> parts_of(std::string const& operand) {
  if (operand.front() != '{') return {operand};
  return split_operands(std::string_view{operand}.substr(1, operand.size() - 2));
}

}  // namespace stagecraft::ptx
