#pragma once

#include <filesystem>
#include <vector>

#include "libsim/report/paper/executed_results.hpp"
#include "libsim/report/paper/reproduction.hpp"

namespace stagecraft {

/// Adds executed values to tables 4 and 5, if they are among `tables`. Each table's notes name the
/// device, the file, and the plans without a result. Those of the last table also list the files
/// that belong to no row.
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
