#pragma once

#include <filesystem>
#include <span>

namespace stagecraft {

/// The folder of the models, systems, stacks and runs that come with the program, whatever the
/// current folder is. The first that exists: `configs` beside this shared library (Python package),
/// of the running program's installation, of the source tree, of the configured prefix.
/// \throws std::runtime_error  naming the folders that are not there.
std::filesystem::path config_folder();

/// The folder of the run files of the paper's table 5 (`175b-present.yaml`, ...).
/// \throws std::runtime_error  as config_folder() does.
std::filesystem::path paper_config_folder();

/// The first of `candidates` that is a folder.
/// \throws std::runtime_error  naming all of them.
std::filesystem::path first_folder(std::span<std::filesystem::path const> candidates);

}  // namespace stagecraft
