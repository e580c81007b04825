#include "apps/stagecraft/command_line.hpp"

#include <charconv>
#include <cmath>

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
    throw CommandLineError{error.what()};
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

std::string one_of(std::string const& shown,
                   std::string const& value,
                   std::vector<std::string> const& accepted) {
  std::string list;
  for (std::string const& word : accepted) {
    if (word == value) return value;
    list += (list.empty() ? "" : ", ") + word;
  }
  refuse(shown, value, list);
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
