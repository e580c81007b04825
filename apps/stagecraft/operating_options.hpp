#pragma once

#include <string>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/report/operation.hpp"

namespace stagecraft {

/// Reads a price per accelerator hour: `2.5/gpu-hour`, or with a currency, `$2.5/gpu-hour` or
/// `2.5 EUR/gpu-hour`, which goes to `currency`.
/// \throws CommandLineError
double read_price(std::string const& text, std::string& currency);

/// A count as people write it: `15T`, `300B`, `4M`, `8k` (powers of ten), `300e9`.
std::string without_suffix(std::string text);

/// Options of money, energy and interruptions, for a command about one run.
std::vector<Option> operating_options();

/// \throws CommandLineError
OperatingRates read_operating_rates(CommandLine const& line);

}  // namespace stagecraft
