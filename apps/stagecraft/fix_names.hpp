#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// Adds one --fix NAME=VALUE[,VALUE...] to a filter.
/// \throws CommandLineError  if there is no such name, or if the name does not take a value.
void read_fix(std::string const& text, SearchFilter& filter);

/// Whether a text such as tensor=8 begins with a name of --fix.
bool has_fix_name(std::string const& text);

/// What --fix can hold, for the help of the command.
std::string fix_description();

/// `tensor=` and all other beginnings of a --fix.
std::vector<std::string> fix_beginnings();

/// Whether a search decides a key of run files, so that --set cannot.
bool is_searched(std::string_view key);

/// The numbers that the legal runs have for what the --fix `text` holds: ": 1, 2, 4"; empty if it
/// does not hold a number.
std::string legal_numbers(SearchRequest const& request, std::string const& text);

}  // namespace stagecraft
