#pragma once

#include <cstdint>
#include <string>

#include "apps/stagecraft/plan/plan_question.hpp"

namespace stagecraft {

/// Reads --margin: a share of the device in percent, a size, or 0. Returns bytes.
/// \throws CommandLineError  for anything else, or more than the device has.
std::int64_t read_margin(std::string const& text, std::int64_t device);

/// Reads --safety, and leaves plans of several stages out of the search if none of them has a
/// probability.
/// \throws CommandLineError  for software of which nothing was measured.
void read_safety(std::string const& text, PlanOptions& options);

}  // namespace stagecraft
