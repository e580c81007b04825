#include "libsim/run/paper_config_folder.hpp"

#include <dlfcn.h>

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

namespace {

/// `configs` beside the shared library that has this function; nothing in a program of its own,
/// whose name, as the user typed it, says nothing.
std::filesystem::path beside_this_library(std::filesystem::path const& program) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void const*>(&config_folder), &info) == 0) return {};
  std::filesystem::path const library{info.dli_fname};
  std::error_code ignored;
  if (!library.is_absolute() || std::filesystem::equivalent(library, program, ignored)) return {};
  return library.parent_path() / "configs";
}

}  // namespace

std::filesystem::path config_folder() {
  std::filesystem::path const program = std::filesystem::read_symlink("/proc/self/exe");
  std::filesystem::path const installed = program.parent_path() / STAGECRAFT_CONFIGS_FROM_PROGRAMS;
  std::filesystem::path beside = beside_this_library(program);
  if (std::error_code ignored; !beside.empty() && std::filesystem::is_directory(beside, ignored)) {
    return beside;
  }
  return first_folder(std::array{installed.lexically_normal(),
                                 std::filesystem::path{STAGECRAFT_SOURCE_CONFIGS},
                                 std::filesystem::path{STAGECRAFT_INSTALLED_CONFIGS}});
}

std::filesystem::path paper_config_folder() { return config_folder() / "paper"; }

}  // namespace stagecraft
