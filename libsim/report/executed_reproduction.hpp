#pragma once

#include <filesystem>
#include <vector>

#include "libsim/report/executed_results.hpp"
#include "libsim/report/reproduction.hpp"

namespace stagecraft {

/// Puts what was executed beside tables 4 and 5, where they are among `tables`. Each of them then
/// says in its notes on which device, from which file, and of which plans nothing was found; the
/// last of the two also which files of the folder stand in none of their rows.
///
/// Behind table 5 come two more: `table5_twins`, iterations of the run files
/// {model}-{case}-twin.yaml, which have the paper's layout, schedule and policies with a model
/// small enough for any machine; and `table5_memory`, the most that a rank of each executed stage
/// held, without workspace, of the paper's runs and of the twins.
/// \throws ConfigError  when a run file is damaged.
void add_executed(std::vector<Reproduction>& tables,
                  ExecutedResults const& results,
                  std::filesystem::path const& paper_configs);

}  // namespace stagecraft
