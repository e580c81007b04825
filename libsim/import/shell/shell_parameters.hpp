#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// The words with a text between them.
std::string joined(ShellWords const& words, std::string_view between = " ");

/// Whether an option of the shell is set, such as `errexit` or `nocasematch`.
bool has_option(ShellVariables const& variables, std::string_view name);

/// Whether a text matches a pattern, in any case of letters if the option `nocasematch` is set.
bool matches_with_options(std::string const& text,
                          std::string const& pattern,
                          ShellVariables const& variables);

/// What `${...}` stands for.
struct BracedValue {
  ShellWords elements{};
  bool each = false;  ///< in quotes, too, each element is a word, as of "${NAME[@]}"
};

/// Expands the words of a default, or a pattern; nullopt if defaults are too deep within defaults.
using ExpandWritten =
    std::function<std::optional<ShellWords>(std::string_view written, bool is_pattern)>;

/// The value of `${inner}`; `inner` is a name, perhaps with an index, a default or another
/// operation, or # and a name. `${NAME:=TEXT}` sets its variable in `settable`, unless that is
/// null. Returns nullopt if the variable is not set, if its value is open, and for operations that
/// are not known. Source: the manual of bash 5.2, section 3.5.3.
std::optional<BracedValue> braced_value(std::string_view inner,
                                        ShellVariables const& variables,
                                        ShellVariables* settable,
                                        ExpandWritten const& expand);

}  // namespace stagecraft
