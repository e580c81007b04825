#pragma once

#include <filesystem>

#include "libsim/config/config_node.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// Key `routing`: a word, or a map.
Routing read_routing(ConfigNode const& node);
/// Reads a CSV file with the columns layer, microbatch, expert and rows. If the microbatch is
/// empty, the counts hold for all microbatches that have none of their own.
/// \throws ConfigError  with the lines of cells that are not whole numbers, and of experts that
/// come twice; also if a column is missing
CountsFile read_counts_file(std::filesystem::path const& path);

}  // namespace stagecraft
