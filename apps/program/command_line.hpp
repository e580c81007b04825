#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "apps/program/command.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// The user's command line asks for something that does not exist. The message says which option,
/// what was found and what is accepted.
class CommandLineError : public std::runtime_error {
 public:
  CommandLineError(std::string option,
                   std::string found,
                   std::string accepted,
                   std::string condition = {});
  /// `option: text`, for a reason that is worded elsewhere.
  CommandLineError(std::string option, std::exception const& reason);

  /// Has no place; `key` is the option or argument as the user writes it, if it is of one.
  Problem const& problem() const { return problem_; }

 private:
  explicit CommandLineError(Problem problem);

  Problem problem_;
};

/// The parsed command line of a command. Functions take an option's name without dashes; it must be
/// one of the command's.
class CommandLine {
 public:
  /// Abbreviated options are refused; values that are one of a few words are checked. The command
  /// must outlive the object.
  /// \throws CommandLineError
  CommandLine(Command const& command, std::vector<std::string> const& words);

  /// Whether the option is given, or has a default.
  bool has(std::string_view option) const { return !values_of(option).empty(); }
  bool is_given(std::string_view option) const;

  /// The option's value. Pre: has(option)
  std::string const& value(std::string_view option) const { return values_of(option).back(); }
  std::optional<std::string> find(std::string_view option) const;
  /// All values of an option that may be repeated.
  std::vector<std::string> const& values_of(std::string_view option) const;
  /// The value of a required option. The error names `accepted` as what the option takes.
  /// \throws CommandLineError
  std::string const& needed(std::string_view option, std::string const& accepted) const;

  /// The value of an option whose words are the names of an enumeration. Pre: has(option)
  template <typename Enum>
  Enum word(std::string_view option) const {
    return *value_named<Enum>(value(option));
  }
  /// The option's value as a whole number in [least, most]. Pre: has(option)
  /// \throws CommandLineError
  int whole_number(std::string_view option, int least, int most) const;
  /// The option's value as a number. Pre: has(option)
  /// \throws CommandLineError  if it is not a number, or is negative or infinite.
  double number_from_zero(std::string_view option) const;

  /// The words that belong to no option.
  std::vector<std::string> const& arguments() const { return arguments_; }
  /// The words after `--`, of a command that passes them on.
  std::vector<std::string> const& rest() const { return rest_; }
  /// All words as they were written, with spaces between them.
  std::string text() const;

 private:
  struct Given {
    std::vector<std::string> values;  ///< a switch that is given has one empty text
    bool is_fallback = false;
  };

  Option const& declared(std::string_view option) const;
  void check_words() const;

  Command const* command_;
  std::vector<std::string> words_;
  std::vector<std::string> arguments_;
  std::vector<std::string> rest_;
  std::map<std::string, Given, std::less<>> given_;
};

/// The options of a command and --help, as help shows them.
std::string options_text(Command const& command);

/// A refusal of `word`: `shown: found 'wrd'; accepted: list; did you mean 'word'?`.
CommandLineError unknown_word(std::string shown,
                              std::string const& word,
                              std::vector<std::string> const& accepted);

/// The items of a comma-separated list, in their order. An empty item at its end is left out.
std::vector<std::string> list_items(std::string const& list);

/// `text` as a whole number in [least, most]; `shown` names the option in messages.
/// \throws CommandLineError
int whole_number(std::string const& shown, std::string const& text, int least, int most);

/// `text` as a number.
/// \throws CommandLineError  if it is not a number, or is negative or infinite.
double number_from_zero(std::string const& shown, std::string const& text);

}  // namespace stagecraft
