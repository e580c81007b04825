#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "libsim/report/comparison.hpp"

namespace stagecraft {

/// Tables for people: memory by stage, time by phase and by op, and what the difference comes
/// from, in lines of at most `width` columns.
std::string comparison_tables(Comparison const& comparison, int width);

/// One or two sentences: which iteration is longer, by how much, and what most of that is. Times
/// and sizes have units that fit them. The traces are called A and `other`.
std::string explain_difference(Comparison const& comparison, std::string const& other = "B");

/// The document `stagecraft.comparison/1`.
nlohmann::ordered_json to_json(Comparison const& comparison);

}  // namespace stagecraft
