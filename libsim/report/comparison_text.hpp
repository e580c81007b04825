#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "libsim/report/comparison.hpp"

namespace stagecraft {

/// Tables for people: memory by stage, time by phase and by op, and where the difference comes
/// from, its sentences in lines of at most `width` columns.
std::string comparison_tables(Comparison const& comparison, int width);

/// One or two sentences: which is longer, by how much, and what most of it is. Times and sizes
/// are in the units that fit them, names as they are spoken. The traces are called A and `other`.
std::string explain_difference(Comparison const& comparison, std::string const& other = "B");

/// The document `stagecraft.comparison/1`.
nlohmann::ordered_json to_json(Comparison const& comparison);

}  // namespace stagecraft
