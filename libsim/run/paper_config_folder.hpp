#pragma once

#include <filesystem>

namespace stagecraft {

/// The folder with the paper's run files (configs/paper), wherever the program is started from.
/// \throws std::runtime_error  naming the places that were tried.
std::filesystem::path paper_config_folder();

}  // namespace stagecraft
