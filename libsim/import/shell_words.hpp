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

/// Variables of a script: a scalar has one element, an array any number.
struct ShellVariable {
  std::vector<ShellWord> elements;
};
using ShellVariables = std::map<std::string, ShellVariable, std::less<>>;

/// What a script is made of: words as they are written, quotes and all; operators such as `;`; ends
/// of lines; and assignments of arrays, with their elements as written.
struct ShellToken {
  enum class Kind { word, operation, newline, array };
  Kind kind = Kind::word;
  ShellWord word;                   ///< array: the name
  bool appends = false;             ///< array: `+=`
  std::vector<ShellWord> elements;  ///< array
};

/// Cuts a script into tokens. Comments are left out but for those that start with `#SBATCH`, which
/// go to `sbatch`; so are the texts of here-documents.
std::vector<ShellToken> shell_tokens(std::string_view script, std::vector<std::string>& sbatch);

/// The words that a written word becomes: variables and arithmetic put in, quotes taken away, what
/// was not quoted split at blanks. What the script does not set, and the output of commands, stays
/// as it is written (`$DATA_PATH`), as one word; but `$@` is nothing.
/// Source: POSIX.1-2017, Shell Command Language, section 2.6, without file names and tildes.
std::vector<ShellWord> expand(ShellWord const& written, ShellVariables const& variables);

/// Whether a value still has a variable in it that nothing set.
bool is_unresolved(std::string_view text);

}  // namespace stagecraft
