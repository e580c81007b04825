#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "libsim/report/comparison.hpp"

namespace stagecraft {

/// Tables for people: memory by stage, time by phase and by op, and where the difference comes
/// from.
std::string comparison_tables(Comparison const& comparison);

/// One or two sentences: which is longer, by how much, and what most of it is.
std::string explain_difference(Comparison const& comparison);

/// The document `stagecraft.comparison/1`.
nlohmann::ordered_json to_json(Comparison const& comparison);

}  // namespace stagecraft
