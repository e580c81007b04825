#pragma once

#include <boost/program_options.hpp>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/words.hpp"

namespace stagecraft {

/// The user's command line asks for something that is not there. The message says which option,
/// what was found and what is accepted.
class CommandLineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a command takes.
struct OptionTable {
  std::optional<boost::program_options::options_description> options;
  std::string argument;                  ///< its words that are no options: see expected_value()
  std::vector<std::string> subcommands;  ///< words that must come next
};

/// As the last word of a command it asks for its OptionTable, which is thrown instead of doing
/// anything: by parse_options(), or by commands that have subcommands. No word of a real command
/// line holds a zero.
inline constexpr std::string_view option_table_request{"\0option table", 13};

/// The words of an enumeration as the name of a value: `gpipe|1f1b|interleaved`.
template <typename Enum>
std::string choice_of() {
  std::string text;
  for (auto const& entry : Words<Enum>::all) {
    if (!text.empty()) text += '|';
    text += entry.second;
  }
  return text;
}

/// Parses the options of one command; no option is guessed from its first letters, and words that
/// are no option are refused.
/// \throws CommandLineError
boost::program_options::variables_map parse_options(
    std::vector<std::string> const& arguments,
    boost::program_options::options_description const& options);

/// Likewise, with the words that are no option put into `positional`; `argument` says what they
/// are: see expected_value().
/// \throws CommandLineError
boost::program_options::variables_map parse_options(
    std::vector<std::string> const& arguments,
    boost::program_options::options_description const& options,
    std::vector<std::string>& positional,
    std::string const& argument = "FILE");

/// What --output needs.
inline constexpr char const* file_to_write = "the file to write";

/// The value of an option that a command cannot do without. `shown` names it in messages, as
/// "--pipeline (-p)"; `accepted` is what to give it.
/// \throws CommandLineError
std::string needed(boost::program_options::variables_map const& values,
                   std::string const& name,
                   std::string const& shown,
                   std::string const& accepted);

/// \throws CommandLineError  where the output is one of the files that a command reads.
void refuse_input(std::string const& option,
                  std::filesystem::path const& output,
                  std::vector<std::filesystem::path> const& inputs);

/// The value of --trace. A file that is there is replaced only where it is an HDF5 file, or empty.
/// \throws CommandLineError
std::filesystem::path trace_to_write(std::string const& path);

/// `word` as a message that refuses it shows it, with what is accepted: `'wrd'; accepted: list; did
/// you mean 'word'?`.
std::string refused_word(std::string const& word, std::vector<std::string> const& accepted);

/// The option's value, which has to be one of `accepted`.
/// \throws CommandLineError  naming the option by `shown`, e.g. "--clock".
std::string one_of(std::string const& shown,
                   std::string const& value,
                   std::vector<std::string> const& accepted);

/// The option's value as a whole number in [least, most].
/// \throws CommandLineError  naming the option by `shown`, e.g. "--pipeline (-p)".
int whole_number(std::string const& shown, std::string const& value, int least, int most);

/// The option's value as a number.
/// \throws CommandLineError  when it is not one, or is negative or infinite.
double number_from_zero(std::string const& shown, std::string const& value);

}  // namespace stagecraft
