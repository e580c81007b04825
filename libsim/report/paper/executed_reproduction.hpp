#pragma once

#include <filesystem>
#include <vector>

#include "libsim/report/paper/executed_results.hpp"
#include "libsim/report/paper/reproduction.hpp"

namespace stagecraft {

/// Adds executed values to tables 4 and 5, if they are among `tables`. The notes of each then say
/// on which device, from which file, and for which plans nothing was found; those of the last of
/// the two also say which files of the folder belong to none of their rows.
///
/// Two tables are added after table 5: `table5_twins` has iterations of the run files
/// {model}-{case}-twin.yaml, which have the paper's layout, schedule and policies with a model
/// small enough for any machine; `table5_memory` has the most that a rank of each executed stage
/// held, without workspace, for the paper's runs and for the twins.
/// \throws ConfigError  if a run file is damaged.
void add_executed(std::vector<Reproduction>& tables,
                  ExecutedResults const& results,
                  std::filesystem::path const& paper_configs);

}  // namespace stagecraft
