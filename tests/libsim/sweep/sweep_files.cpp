#include "tests/libsim/sweep/sweep_files.hpp"

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "libsim/sweep/sweep_reader.hpp"

namespace stagecraft {
namespace {

// Lines 1 to 6; what a test adds begins on line 7.
constexpr char const* small_base =
    "base:\n"
    "  model: {layers: 4, hidden: 64, heads: 4, sequence: 16, vocabulary: 256}\n"
    "  system: " STAGECRAFT_SOURCE_DIR
    "/configs/systems/selene-a100.yaml\n"
    "  parallel: {tensor: 2}\n"
    "  batch: {global: 8, micro: 1}\n"
    "  schedule: {kind: 1f1b}\n";

}  // namespace

SweepFolder::SweepFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "stagecraft-sweep-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error{"could not make a folder"};
  path_ = pattern;
}

SweepFolder::~SweepFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path SweepFolder::write(std::string const& name, std::string const& text) const {
  std::ofstream{path(name), std::ios::binary} << text;
  return path(name);
}

Sweep SweepFolder::sweep(std::string const& rest) const {
  return load_sweep(write("sweep.yaml", small_base + rest));
}

std::string complaint_of(std::string const& rest) {
  SweepFolder const folder;
  try {
    static_cast<void>(folder.sweep(rest));
  } catch (ConfigError const& error) {
    return error.what();
  }
  return {};
}

}  // namespace stagecraft
