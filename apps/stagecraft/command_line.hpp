#pragma once

#include <boost/program_options.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace stagecraft {

/// The user's command line asks for something that is not there. The message says which option,
/// what was found and what is accepted.
class CommandLineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parses the options of one command; no option is guessed from its first letters, and words that
/// are no option are refused.
/// \throws CommandLineError
boost::program_options::variables_map parse_options(
    std::vector<std::string> const& arguments,
    boost::program_options::options_description const& options);

/// Likewise, with the words that are no option put into `positional`.
/// \throws CommandLineError
boost::program_options::variables_map parse_options(
    std::vector<std::string> const& arguments,
    boost::program_options::options_description const& options,
    std::vector<std::string>& positional);

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
