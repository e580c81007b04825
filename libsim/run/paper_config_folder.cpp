#include "libsim/run/paper_config_folder.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <system_error>

namespace stagecraft {

std::filesystem::path first_folder(std::span<std::filesystem::path const> candidates) {
  auto const found = std::ranges::find_if(candidates, [](std::filesystem::path const& folder) {
    std::error_code ignored;
    return std::filesystem::is_directory(folder, ignored);
  });
  if (found != candidates.end()) return *found;
  std::string message = "could not find the configurations; looked for the folders";
  for (std::filesystem::path const& folder : candidates) message += "\n  " + folder.string();
  throw std::runtime_error{message};
}

std::filesystem::path config_folder() {
  std::filesystem::path const program = std::filesystem::read_symlink("/proc/self/exe");
  std::filesystem::path const installed = program.parent_path() / STAGECRAFT_CONFIGS_FROM_PROGRAMS;
  return first_folder(std::array{installed.lexically_normal(),
                                 std::filesystem::path{STAGECRAFT_SOURCE_CONFIGS},
                                 std::filesystem::path{STAGECRAFT_INSTALLED_CONFIGS}});
}

std::filesystem::path paper_config_folder() { return config_folder() / "paper"; }

}  // namespace stagecraft
