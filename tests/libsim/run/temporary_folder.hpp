#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace stagecraft {

/// A folder that is removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_{std::filesystem::temp_directory_path() /
              ("stagecraft_test_" + std::to_string(::getpid()))} {
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  std::string write(std::string const& name, std::string const& text) const {
    std::ofstream{path_ / name} << text;
    return (path_ / name).string();
  }
  std::filesystem::path const& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace stagecraft
