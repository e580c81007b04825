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

/// Options of money, energy and interruptions.
std::vector<Option> operating_options();

/// Reads them. Price and power may be of each system: `--price dgx-h100=2.5,b200-hgx=5`.
/// \throws CommandLineError
SystemRates read_system_rates(CommandLine const& line);

/// Refuses rates of systems that the command does not ask about, and systems without a rate where
/// others have one. `systems`: the names of each, as names_of_system() has them.
/// \throws CommandLineError
void require_rates(SystemRates const& rates, std::vector<std::vector<std::string>> const& systems);

}  // namespace stagecraft
