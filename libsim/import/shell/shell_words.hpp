#pragma once

#include <map>
#include <memory>
#include <string>
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
  std::shared_ptr<std::string const> file{};  ///< null: the one that all words are of
};

using ShellWords = std::vector<ShellWord>;

/// A variable of a script: a scalar has one element, an array any number.
struct ShellVariable {
  std::vector<ShellWord> elements;
};
using ShellVariables = std::map<std::string, ShellVariable, std::less<>>;

/// `text` as a shell reads it as one word.
std::string shell_word(std::string const& text);

}  // namespace stagecraft
