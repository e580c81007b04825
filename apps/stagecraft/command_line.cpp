#include "apps/stagecraft/command_line.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>

#include "libsim/config/did_you_mean.hpp"

namespace stagecraft {

namespace po = boost::program_options;

namespace {

[[noreturn]] void refuse(std::string const& shown,
                         std::string const& found,
                         std::string const& accepted) {
  throw CommandLineError{shown + ": found '" + found + "'; accepted: " + accepted};
}

/// All of `text` as a number, or false.
template <class Number>
bool read(std::string const& text, Number& number) {
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

/// The accepted words, and which of them was meant.
std::string accepted_of(std::string const& word, std::vector<std::string> const& accepted) {
  std::string const meant{nearest_word(word, accepted)};
  return joined(accepted) + (meant.empty() ? "" : "; did you mean '" + meant + "'?");
}

std::vector<std::string> spellings_of(po::options_description const& options) {
  std::vector<std::string> spellings;
  for (auto const& option : options.options()) spellings.push_back("--" + option->long_name());
  return spellings;
}

/// What is wrong with a command line, as all messages have it: found and accepted.
std::string complaint_of(po::error const& error, po::options_description const& options) {
  auto const* const at_option = dynamic_cast<po::error_with_option_name const*>(&error);
  if (at_option == nullptr) return error.what();
  std::string const name = at_option->get_option_name();
  if (dynamic_cast<po::unknown_option const*>(&error) != nullptr) {
    return name +
           ": found an unknown option; accepted: " + accepted_of(name, spellings_of(options));
  }
  if (dynamic_cast<po::multiple_occurrences const*>(&error) != nullptr) {
    return name + ": found more than once; accepted: once";
  }
  auto const* const syntax = dynamic_cast<po::invalid_syntax const*>(&error);
  if (syntax != nullptr && syntax->kind() == po::invalid_syntax::missing_parameter) {
    po::option_description const* const option =
        options.find_nothrow(name.substr(name.find_first_not_of('-')), false);
    return name + ": found nothing; accepted: " +
           (option == nullptr ? "a value" : option->format_parameter());
  }
  return error.what();
}

}  // namespace

po::variables_map parse_options(std::vector<std::string> const& arguments,
                                po::options_description const& options,
                                std::vector<std::string>& positional,
                                std::string const& argument) {
  if (!arguments.empty() && arguments.back() == option_table_request) {
    throw OptionTable{options, argument, {}};
  }
  po::variables_map values;
  try {
    int const style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::parsed_options const parsed =
        po::command_line_parser{arguments}.options(options).style(style).run();
    for (po::option const& option : parsed.options) {
      if (option.position_key >= 0) positional.push_back(option.value.at(0));
    }
    po::store(parsed, values);
  } catch (po::error const& error) {
    throw CommandLineError{complaint_of(error, options)};
  }
  return values;
}

po::variables_map parse_options(std::vector<std::string> const& arguments,
                                po::options_description const& options) {
  std::vector<std::string> positional;
  po::variables_map values = parse_options(arguments, options, positional, "");
  if (!positional.empty()) refuse("command line", positional.front(), "options only");
  return values;
}

std::string needed(po::variables_map const& values,
                   std::string const& name,
                   std::string const& shown,
                   std::string const& accepted) {
  if (values.count(name) == 0) {
    throw CommandLineError{shown + ": found nothing; accepted: " + accepted};
  }
  return values[name].as<std::string>();
}

void refuse_input(std::string const& option,
                  std::filesystem::path const& output,
                  std::vector<std::filesystem::path> const& inputs) {
  for (std::filesystem::path const& input : inputs) {
    std::error_code ignored;
    if (!std::filesystem::equivalent(output, input, ignored)) continue;
    throw CommandLineError{option + ": found '" + output.string() +
                           "', which is read; accepted: another file"};
  }
}

std::filesystem::path trace_to_write(std::string const& path) {
  constexpr std::string_view signature{"\x89HDF"};
  if (path.empty())
    throw CommandLineError{"--trace: found ''; accepted: " + std::string{file_to_write}};
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return path;
  std::ifstream file{path, std::ios::binary};
  std::array<char, signature.size()> begin{};
  file.read(begin.data(), begin.size());
  auto const read = static_cast<std::size_t>(file.gcount());
  bool const may_replace = read == 0 || std::string_view{begin.data(), read} == signature;
  if (!may_replace) {
    throw CommandLineError{
        "--trace: found '" + path +
        "', which is there and is no trace; accepted: a new file, or a trace to replace"};
  }
  return path;
}

std::string refused_word(std::string const& word, std::vector<std::string> const& accepted) {
  return "'" + word + "'; accepted: " + accepted_of(word, accepted);
}

std::string one_of(std::string const& shown,
                   std::string const& value,
                   std::vector<std::string> const& accepted) {
  if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) return value;
  throw CommandLineError{shown + ": found " + refused_word(value, accepted)};
}

int whole_number(std::string const& shown, std::string const& value, int least, int most) {
  int number = 0;
  if (!read(value, number) || number < least || number > most) {
    refuse(shown, value,
           "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return number;
}

double number_from_zero(std::string const& shown, std::string const& value) {
  double number = 0;
  if (!read(value, number) || !std::isfinite(number) || number < 0) {
    refuse(shown, value, "a number from 0");
  }
  return number;
}

}  // namespace stagecraft
