#pragma once

#include <filesystem>
#include <string>

#include "libsim/sweep/sweep.hpp"

namespace stagecraft {

/// An empty folder that is gone with this object.
class SweepFolder {
 public:
  SweepFolder();
  ~SweepFolder();
  SweepFolder(SweepFolder const&) = delete;
  SweepFolder& operator=(SweepFolder const&) = delete;

  std::filesystem::path path(std::string const& name) const { return path_ / name; }
  std::filesystem::path write(std::string const& name, std::string const& text) const;
  /// Writes a sweep file whose base is a model of four small layers, and loads it. `rest`: the file
  /// from the key after `base` on.
  Sweep sweep(std::string const& rest) const;

 private:
  std::filesystem::path path_;
};

/// What load_sweep() says of such a file; empty if it loads.
std::string complaint_of(std::string const& rest);

}  // namespace stagecraft
