#include "libsim/run/paper_config_folder.hpp"

#include <stdexcept>

namespace stagecraft {

std::filesystem::path paper_config_folder() {
  std::filesystem::path const folder = std::filesystem::path{STAGECRAFT_CONFIG_DIR} / "paper";
  if (std::filesystem::is_directory(folder)) return folder;
  throw std::runtime_error("could not find the paper's run files; tried " + folder.string());
}

}  // namespace stagecraft
