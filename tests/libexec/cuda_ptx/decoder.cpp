#include "tests/libexec/cuda_ptx/decoder.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "tests/libexec/cuda_ptx/block_memory.hpp"
#include "tests/libexec/cuda_ptx/instruction_set.hpp"
#include "tests/libexec/cuda_ptx/reconvergence.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

namespace stagecraft::ptx {
namespace {

constexpr std::size_t slot_alignment = 64;

std::size_t aligned(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

std::string_view without_brackets(std::string_view text, char open, char close) {
  if (text.size() < 2 || text.front() != open || text.back() != close) {
    throw SourceError{"expected " + std::string{open} + "..." + close + ", found " +
                      std::string{text}};
  }
  return text.substr(1, text.size() - 2);
}

bool is_number(std::string_view text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text.front())) != 0 ||
                           (text.front() == '-' && text.size() > 1));
}

/// Decimal or hexadecimal, or the bits of an fp32 (0f...) or fp64 (0d...) number.
std::uint64_t bits_of_number(std::string const& text) {
  if (text.size() > 2 && text[0] == '0' && std::strchr("fFdD", text[1]) != nullptr) {
    return std::stoull(text.substr(2), nullptr, 16);
  }
  if (text.front() == '-') return static_cast<std::uint64_t>(std::stoll(text, nullptr, 0));
  return std::stoull(text, nullptr, 0);
}

}  // namespace

Decoder::Decoder(Module const& module, std::map<std::string, std::uint64_t> const& global_addresses)
    : module_{module}, global_addresses_{global_addresses} {}

Program Decoder::decode(Function const& entry) {
  program_.name = entry.name;
  program_.max_threads = entry.max_threads;
  scopes_.push_back({.is_function = true});
  for (Variable const& parameter : entry.parameters) {
    std::size_t const offset = aligned(program_.parameter_bytes, parameter.alignment);
    scopes_.back().symbols[parameter.name] = {Space::param, offset};
    program_.parameter_offsets.push_back(offset);
    program_.parameter_sizes.push_back(parameter.bytes);
    program_.parameter_bytes = offset + parameter.bytes;
  }
  place_shared(entry);
  body(entry);
  for (Instruction& one : program_.code) {
    if (one.flow == Flow::branch) one.target = labels_[static_cast<std::size_t>(one.target)];
  }
  find_reconvergence(program_.code);
  program_.opcodes.resize(opcodes_.size());
  for (auto const& [name, number] : opcodes_) {
    program_.opcodes[static_cast<std::size_t>(number)] = name;
  }
  return std::move(program_);
}

/// Dynamic shared memory begins behind the rest, so that its place is known last.
void Decoder::place_shared(Function const& entry) {
  auto const is_used = [&](Variable const& variable) {
    return std::any_of(entry.body.begin(), entry.body.end(), [&](Statement const& statement) {
      return std::any_of(
          statement.operands.begin(), statement.operands.end(),
          [&](std::string const& one) { return one.find(variable.name) != std::string::npos; });
    });
  };
  for (Variable const& variable : module_.variables) {
    if (variable.space == "shared" && variable.bytes > 0 && is_used(variable)) {
      place_shared(variable);
    }
  }
  for (Statement const& statement : entry.body) {
    if (statement.kind == Statement::Kind::variable && statement.variable.space == "shared") {
      place_shared(statement.variable);
    }
  }
  for (Variable const& variable : module_.variables) {
    if (variable.space == "shared" && variable.bytes == 0 && is_used(variable)) {
      place_shared(variable);
    }
  }
}

void Decoder::place_shared(Variable const& variable) {
  std::size_t const offset = aligned(program_.static_shared_bytes, variable.alignment);
  program_.static_shared_bytes = offset + variable.bytes;
  scopes_.front().symbols[variable.name] = {Space::shared, first_address + offset};
}

std::uint64_t Decoder::own_memory(Variable const& variable) {
  std::size_t const offset =
      aligned(program_.local_bytes, std::max<std::size_t>(variable.alignment, 8));
  program_.local_bytes = offset + variable.bytes;
  return first_address + offset;
}

void Decoder::declare(Statement const& statement) {
  Type const type = type_of(statement.name);
  Scope& scope = scopes_.back();
  for (std::string const& name : statement.operands) {
    std::size_t const bracket = name.find('<');
    if (bracket == std::string::npos) {
      scope.registers[name] = {new_slot(type), type};
    } else {
      scope.families[name.substr(0, bracket)] = type;
    }
  }
}

void Decoder::declare(Variable const& variable) {
  if (variable.space == "shared") return;  // placed
  if (variable.space != "local" && variable.space != "param") {
    throw SourceError{"a variable in space " + variable.space + " inside a function"};
  }
  bool const is_param = variable.space == "param";
  scopes_.back().symbols[variable.name] = {is_param ? Space::param : Space::local,
                                           own_memory(variable) + (is_param ? call_parameters : 0)};
}

void Decoder::body(Function const& function) {
  if (std::find(calls_.begin(), calls_.end(), function.name) != calls_.end()) {
    throw SourceError{"recursion: " + function.name};
  }
  calls_.push_back(function.name);
  label_numbers_.emplace_back();
  int const end_label = label("");
  for (Statement const& statement : function.body) {
    try {
      switch (statement.kind) {
        case Statement::Kind::open:
          scopes_.emplace_back();
          break;
        case Statement::Kind::close:
          scopes_.pop_back();
          break;
        case Statement::Kind::label:
          labels_[static_cast<std::size_t>(label(statement.name))] =
              static_cast<int>(program_.code.size());
          break;
        case Statement::Kind::registers:
          declare(statement);
          break;
        case Statement::Kind::variable:
          declare(statement.variable);
          break;
        case Statement::Kind::instruction:
          instruction(statement, end_label);
          break;
      }
    } catch (SourceError const& error) {
      if (std::string_view{error.what()}.rfind("line ", 0) == 0) throw;
      throw SourceError{"line " + std::to_string(statement.line) + ", " + statement.name + ": " +
                        error.what()};
    }
  }
  labels_[static_cast<std::size_t>(end_label)] = static_cast<int>(program_.code.size());
  for (auto const& [name, number] : label_numbers_.back()) {
    if (labels_[static_cast<std::size_t>(number)] < 0) throw SourceError{"no label " + name};
  }
  label_numbers_.pop_back();
  calls_.pop_back();
  // Who runs off the end of a kernel has returned.
  if (calls_.empty()) program_.code.push_back({.flow = Flow::exit});
}

void Decoder::instruction(Statement const& statement, int end_label) {
  if (statement.name == "call.uni" || statement.name == "call") return call(statement);
  Instruction made;
  made.line = statement.line;
  if (!statement.guard.empty()) {
    made.guard = value(statement.guard, 1);
    made.is_negated = statement.is_negated;
  }
  auto const [opcode, is_new] =
      opcodes_.try_emplace(statement.name, static_cast<int>(opcodes_.size()));
  made.opcode = static_cast<std::uint16_t>(opcode->second);
  if (statement.name == "bra" || statement.name == "bra.uni") {
    made.flow = Flow::branch;
    made.target = label(statement.operands.at(0));
  } else if (statement.name == "ret" || statement.name == "exit") {
    bool const is_call = calls_.size() > 1 && statement.name == "ret";
    made.flow = is_call ? Flow::branch : Flow::exit;
    made.target = end_label;
  } else {
    Form form{*this, statement};
    bool const is_known = make_comparison(form, made) || make_carry_arithmetic(form, made) ||
                          make_arithmetic(form, made) || make_bit_operation(form, made) ||
                          make_conversion(form, made) || make_memory_access(form, made) ||
                          make_warp_operation(form, made);
    if (!is_known) throw SourceError{"an instruction that this interpreter does not know"};
  }
  program_.code.push_back(made);
}

void Decoder::call(Statement const& statement) {
  if (!statement.guard.empty()) throw SourceError{"a call under a predicate"};
  // (results), name, (arguments); either list may be missing.
  std::vector<std::string> results;
  std::vector<std::string> arguments;
  Function const* function = nullptr;
  for (std::string const& part : statement.operands) {
    if (part.front() != '(') {
      function = module_.function(part);
      if (function == nullptr) throw SourceError{"no function " + part};
    } else {
      (function == nullptr ? results : arguments) =
          split_operands(without_brackets(part, '(', ')'));
    }
  }
  if (function == nullptr || results.size() != function->results.size() ||
      arguments.size() != function->parameters.size()) {
    throw SourceError{"a call that does not fit what it calls"};
  }
  Scope scope{.is_function = true};
  auto const bind = [&](Variable const& formal, std::string const& actual) {
    Symbol const* const symbol = find_symbol(actual);
    if (symbol == nullptr) throw SourceError{"no parameter " + actual};
    scope.symbols[formal.name] = *symbol;
  };
  for (std::size_t i = 0; i < results.size(); ++i) bind(function->results[i], results[i]);
  for (std::size_t i = 0; i < arguments.size(); ++i) bind(function->parameters[i], arguments[i]);
  scopes_.push_back(std::move(scope));
  body(*function);
  scopes_.pop_back();
}

int Decoder::label(std::string const& name) {
  auto const [entry, is_new] =
      label_numbers_.back().try_emplace(name, static_cast<int>(labels_.size()));
  if (is_new) labels_.push_back(-1);
  return entry->second;
}

Slot Decoder::new_slot(Type type) {
  std::size_t const bytes =
      type.bits == 1 ? 4 : static_cast<std::size_t>(type.bytes() * warp_lanes);
  std::size_t const begin = aligned(program_.registers.size(), std::min(bytes, slot_alignment));
  program_.registers.resize(begin + bytes, std::byte{0xFF});
  return static_cast<Slot>(begin);
}

Slot Decoder::constant(std::uint64_t bits, int width) {
  if (width < 64 && width > 1) bits &= (std::uint64_t{1} << width) - 1;
  if (width == 1) bits = bits != 0 ? 1 : 0;
  auto const [entry, is_new] = constants_.try_emplace({bits, width}, Slot{0});
  if (is_new) {
    entry->second = new_slot({'b', width});
    std::byte* const first = program_.registers.data() + entry->second;
    auto const bytes = static_cast<std::size_t>(width / 8);
    if (width == 1) std::memset(first, bits != 0 ? 0xFF : 0, 4);
    for (std::size_t lane = 0; width > 1 && lane < warp_lanes; ++lane) {
      std::memcpy(first + lane * bytes, &bits, bytes);
    }
  }
  return entry->second;
}

Operand const* Decoder::find_register(std::string_view name) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto const found = scope->registers.find(name);
    if (found != scope->registers.end()) return &found->second;
    std::size_t const digits = name.find_last_not_of("0123456789") + 1;
    auto const family = scope->families.find(name.substr(0, digits));
    if (digits < name.size() && family != scope->families.end()) {
      Type const type = family->second;
      return &(scope->registers[std::string{name}] = {new_slot(type), type});
    }
    if (scope->is_function) break;
  }
  static constexpr std::string_view special[] = {
      "%tid.x",   "%tid.y",   "%tid.z",    "%ntid.x",   "%ntid.y",   "%ntid.z", "%ctaid.x",
      "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid"};
  if (std::find(std::begin(special), std::end(special), name) == std::end(special)) return nullptr;
  Type const type{'u', 32};
  Slot const slot = new_slot(type);
  program_.special_registers.emplace_back(name, slot);
  return &(scopes_.front().registers[std::string{name}] = {slot, type});
}

Symbol const* Decoder::find_symbol(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    auto const found = scope->symbols.find(name);
    if (found != scope->symbols.end()) return &found->second;
    if (scope->is_function) break;
  }
  auto const found = scopes_.front().symbols.find(name);
  bool const is_shared =
      found != scopes_.front().symbols.end() && found->second.space == Space::shared;
  return is_shared ? &found->second : nullptr;
}

Operand Decoder::any(std::string_view operand, int constant_bits) {
  if (Operand const* const found = find_register(operand)) return *found;
  Type const type{'b', constant_bits};
  if (is_number(operand))
    return {constant(bits_of_number(std::string{operand}), constant_bits), type};
  if (Symbol const* const symbol = find_symbol(operand)) {
    return {constant(symbol->address, constant_bits), type};
  }
  auto const global = global_addresses_.find(std::string{operand});
  if (global != global_addresses_.end()) return {constant(global->second, constant_bits), type};
  throw SourceError{"an operand that this interpreter does not know: " + std::string{operand}};
}

Slot Decoder::value(std::string_view operand, int bits) {
  Operand const found = any(operand, bits);
  if (found.type.bits != bits) {
    throw SourceError{std::string{operand} + " has " + std::to_string(found.type.bits) +
                      " bits, not " + std::to_string(bits)};
  }
  return found.slot;
}

Slot Decoder::result(std::string_view operand, int bits) {
  if (operand == "_") return new_slot({'b', bits});
  Operand const* const found = find_register(operand);
  if (found == nullptr || found->type.bits != bits) {
    throw SourceError{"no register of " + std::to_string(bits) + " bits: " + std::string{operand}};
  }
  return found->slot;
}

AddressOperand Decoder::address(std::string_view operand) {
  std::string_view const inside = without_brackets(operand, '[', ']');
  std::size_t const plus = inside.find('+');
  std::string_view const base = inside.substr(0, plus);
  std::int64_t const offset =
      plus == std::string_view::npos ? 0 : std::stoll(std::string{inside.substr(plus + 1)});
  Operand const found = any(base, 64);
  if (found.type.bits < 32) throw SourceError{"an address of few bits: " + std::string{operand}};
  return {found.slot, found.type.bits == 64, offset};
}

}  // namespace stagecraft::ptx
