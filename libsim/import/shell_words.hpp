#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// Whether a character can be part of a variable's name.
constexpr bool is_name_character(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '_';
}
/// Whether a character separates words within a line.
constexpr bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// A word of a script or command line, and where it was written (0: not in a file).
struct ShellWord {
  std::string text;
  int line = 0;
  int column = 0;
};

using ShellWords = std::vector<ShellWord>;

/// A variable of a script: a scalar has one element, an array any number.
struct ShellVariable {
  std::vector<ShellWord> elements;
};
using ShellVariables = std::map<std::string, ShellVariable, std::less<>>;

/// A part of a script: a word as it is written, quotes included; an operator such as `;`; an end of
/// a line; or an assignment of an array, with its elements as they are written.
struct ShellToken {
  enum class Kind { word, operation, newline, array };
  Kind kind = Kind::word;
  ShellWord word;                   ///< array: the name
  bool appends = false;             ///< array: `+=`
  std::vector<ShellWord> elements;  ///< array
};

/// Cuts a script into tokens. Texts of here-documents and comments are left out, but comments that
/// start with `#SBATCH` go to `sbatch`.
std::vector<ShellToken> shell_tokens(std::string_view script, std::vector<std::string>& sbatch);

/// The words that a written word expands to: variables and arithmetic inserted, quotes removed,
/// what was not quoted split at blanks. Variables that the script does not set, and outputs of
/// commands, stay as they are written (`$DATA_PATH`), as one word, but `$@` expands to nothing.
/// Source: POSIX.1-2017, Shell Command Language, section 2.6, without file names and tildes.
std::vector<ShellWord> expand(ShellWord const& written, ShellVariables const& variables);

/// Whether a value still contains a variable that the script did not set.
bool is_unresolved(std::string_view text);

}  // namespace stagecraft
