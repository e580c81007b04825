#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace stagecraft {

/// A file that appears under its name only when it is whole. Until then it has the suffix
/// `.partial`, and is gone with this object.
class WholeFile {
 public:
  /// \throws std::runtime_error  when it cannot be created.
  explicit WholeFile(std::filesystem::path path);
  WholeFile(WholeFile const&) = delete;
  WholeFile(WholeFile&&) = delete;
  WholeFile& operator=(WholeFile const&) = delete;
  WholeFile& operator=(WholeFile&&) = delete;
  ~WholeFile();

  /// \throws std::runtime_error  when it cannot be written or renamed.
  void write(std::string const& text);

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::ofstream file_;
};

}  // namespace stagecraft
