#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libsim/fit/fit.hpp"
#include "libsim/fit/fit_data.hpp"
#include "libsim/fit/memory_factor.hpp"
#include "libsim/fit/stack_factor.hpp"

namespace stagecraft {

/// The document of `fit --json`, schema stagecraft.fit/1. `files` are those that were written.
nlohmann::ordered_json to_json(Fit const& fit,
                               FitData const& data,
                               std::vector<std::string> const& files);
nlohmann::ordered_json to_json(StackFactor const& factor, std::vector<std::string> const& files);
nlohmann::ordered_json to_json(MemoryFactor const& factor, std::vector<std::string> const& files);

/// The same for a person.
std::string fit_text(Fit const& fit, FitData const& data);
std::string factor_text(StackFactor const& factor);
std::string factor_text(MemoryFactor const& factor);

/// The text for `fitted` of a constant: how many runs of which files it was fitted to, and how far
/// held-out groups are from their predictions.
std::string provenance_text(Fit const& fit, std::vector<std::string> const& files);

}  // namespace stagecraft
