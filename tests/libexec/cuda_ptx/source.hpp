#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

/// An interpreter of PTX, for tests: what nvcc makes of a kernel is run on a CPU, as NVIDIA's "PTX
/// ISA" (version 9.0) says it behaves. What it does not know is an error.
namespace stagecraft::ptx {

/// PTX that this interpreter cannot read, or does not know.
class SourceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Like u32, f64, pred.
struct Type {
  char kind = 'b';  ///< b, u, s, f, or p (a predicate)
  int bits = 0;     ///< 1 for a predicate

  int bytes() const { return bits / 8; }
  friend bool operator==(Type, Type) = default;
};

/// Whether the text is the name of a type that this interpreter knows.
bool is_type(std::string_view text);
/// \throws SourceError
Type type_of(std::string_view text);

/// A variable or a parameter of any state space.
struct Variable {
  std::string space;  ///< param, shared, global, const, local
  std::string name;
  std::size_t bytes = 0;  ///< 0: as many as a launch gives
  std::size_t alignment = 1;
  std::vector<std::byte> initial{};  ///< empty: none
};

/// One statement of a function's body, as it is written.
struct Statement {
  enum class Kind { instruction, label, registers, variable, open, close };
  Kind kind = Kind::instruction;
  int line = 0;
  std::string guard{};  ///< the predicate before it, or empty
  bool is_negated = false;
  std::string name{};                   ///< opcode, label, or type of registers
  std::vector<std::string> operands{};  ///< also the names of registers; braces and brackets kept
  Variable variable{};
};

struct Function {
  std::string name;
  bool is_entry = false;
  unsigned max_threads = 1024;  ///< of a block
  std::vector<Variable> results{};
  std::vector<Variable> parameters{};
  std::vector<Statement> body{};
};

struct Module {
  std::vector<Function> functions{};
  std::vector<Variable> variables{};

  /// Null where there is none.
  Function const* function(std::string_view name) const;
};

/// \throws SourceError  names the line
Module parse(std::string_view text);

/// Parts between commas that no bracket holds, without blanks around them.
std::vector<std::string> split_operands(std::string_view text);

}  // namespace stagecraft::ptx
