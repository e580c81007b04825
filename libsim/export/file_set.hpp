#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "libsim/host/output_file.hpp"

namespace stagecraft {

/// Files of one result: all of them, or none.
class FileSet {
 public:
  FileSet() = default;
  FileSet(FileSet const&) = delete;
  FileSet(FileSet&&) = delete;
  FileSet& operator=(FileSet const&) = delete;
  FileSet& operator=(FileSet&&) = delete;
  ~FileSet() {
    std::error_code ignored;
    for (auto const& path : written_) std::filesystem::remove(path, ignored);
  }

  template <typename Write>
  void write(std::filesystem::path const& path, Write write) {
    OutputFile output{path};
    write(output);
    output.finish();
    written_.push_back(path);
  }
  void keep() { written_.clear(); }

 private:
  std::vector<std::filesystem::path> written_;
};

/// `prefix` with `ending` after its last character.
inline std::filesystem::path with_ending(std::filesystem::path path, std::string const& ending) {
  path += ending;
  return path;
}

}  // namespace stagecraft
