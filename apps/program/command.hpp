#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "libsim/units/enum_names.hpp"

namespace stagecraft {

class CommandLine;

/// The exit code of commands that check memory, if the plan, or every plan, does not fit.
inline constexpr int exit_does_not_fit = 3;

/// What a command line may have at one place: the value of an option, or a word that belongs to no
/// option. Help shows the name; completion and parsing use the rest.
struct Value {
  enum class Kind { none, text, word, file, folder };

  Kind kind = Kind::none;
  std::string name{};
  /// The words that are accepted; of a file, extensions without the dot. Empty: any file.
  std::vector<std::string> accepted{};
  /// A list of words that completion offers too, though others are accepted: its name, which can be
  /// a variable of a shell, and what it has.
  std::string list{};
  std::vector<std::string> (*listed)() = nullptr;
  bool has_commas = false;  ///< several values with commas between them

  /// The same value with such a list.
  Value offering(std::string of, std::vector<std::string> (*words)()) const;
  /// The same value, or several of them with commas.
  Value with_commas() const;

  static Value text(std::string name) { return {Kind::text, std::move(name), {}}; }
  /// One of a few words.
  static Value word(std::vector<std::string> words);
  /// One of the names of an enumeration.
  template <typename Enum>
  static Value word_of() {
    std::vector<std::string> words;
    words.reserve(EnumNames<Enum>::all.size());
    for (auto const& entry : EnumNames<Enum>::all) words.emplace_back(entry.second);
    return word(std::move(words));
  }
  /// A file of any kind, if the name has no extension.
  static Value file(std::string name);
  /// A file with one of several extensions.
  static Value file(std::string name, std::vector<std::string> extensions) {
    return {Kind::file, std::move(name), std::move(extensions)};
  }
  static Value folder() { return {Kind::folder, "DIR", {}}; }
};

/// An option of a command.
struct Option {
  std::string name;         ///< `output` of --output
  char letter = '\0';       ///< `o` of -o; zero: there is none
  Value value{};            ///< none: a switch
  std::string fallback{};   ///< the value without the option; empty: there is none
  bool may_repeat = false;  ///< all its values count
  std::string description;

  /// As messages name it: `--output (-o)`.
  std::string shown() const;
};

/// The options of several lists, in their order.
std::vector<Option> joined_options(std::initializer_list<std::vector<Option>> lists);

/// A command of a program, as data: help, completion and messages read it. Only `run` acts.
struct Command {
  std::string name;
  std::string summary{};               ///< one line in the list of commands
  std::string introduction{};          ///< usage, and what it does; with one subcommand: that one's
  std::string examples{};              ///< lines, indented; with subcommands: theirs
  std::vector<Option> options{};       ///< besides --help, which every command has
  Value argument{};                    ///< words that belong to no option; none: they are refused
  bool has_rest = false;               ///< words after `--` are passed on as they are
  std::vector<Command> subcommands{};  ///< one of these commands must be named next
  std::string subcommand_is{};         ///< what messages call that word
  /// Returns the exit code.
  std::function<int(CommandLine const& line)> run{};
  /// Replaces `run` for a command that has work to do before its words are parsed.
  std::function<int(Command const& command, std::vector<std::string> const& words)> start{};
};

/// The options of a command and --help; none if it has subcommands.
std::vector<Option> all_options(Command const& command);

/// The first part of what --help prints, usage and what the command does; and its last part, lines.
std::string const& help_introduction(Command const& command);
std::string help_examples(Command const& command);

}  // namespace stagecraft
