#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace stagecraft {

/// A result on its way to the disk: `<path>.partial` until finish(), which renames it to `path`, so
/// that nobody reads half a file. What is not finished is removed again.
class OutputFile {
 public:
  /// Creates `<path>.partial`, so that a path that cannot be written is refused before any work.
  /// \throws OutputError  also where `path` is a device or a folder.
  explicit OutputFile(std::filesystem::path const& path);
  ~OutputFile();
  OutputFile(OutputFile const&) = delete;
  OutputFile(OutputFile&&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile&&) = delete;

  /// Appends; reaches the disk in large pieces. \throws OutputError
  void write(std::string_view bytes);

  /// Writes what is left and renames. Nothing can be written afterwards.
  /// \throws OutputError  and then neither file exists, unless `path` did before.
  void finish();

 private:
  void put(std::string_view bytes);
  [[noreturn]] void fail(int error);
  void discard();

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::string waiting_;  ///< not yet written
  int descriptor_ = -1;
};

/// Refuses a path that cannot be written, before work whose result goes there; leaves nothing.
/// \throws OutputError
void require_writable(std::filesystem::path const& path);

/// A whole file at once. \throws OutputError  and then neither of the two files exists.
void write_output(std::filesystem::path const& path, std::string_view text);

}  // namespace stagecraft
