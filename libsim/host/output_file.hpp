#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace stagecraft {

/// A result that is being written: to `<path>.partial` until finish(), which renames it to `path`,
/// so that nobody reads half a file. A file that is not finished is removed. A file whose name ends
/// in `.gz` is compressed as gzip does it; the same bytes give the same file.
class OutputFile {
 public:
  /// Creates `<path>.partial`, so that a path that cannot be written is refused before any work.
  /// \throws OutputError  also if `path` is a device or a folder.
  explicit OutputFile(std::filesystem::path const& path);
  ~OutputFile();
  OutputFile(OutputFile const&) = delete;
  OutputFile(OutputFile&&) = delete;
  OutputFile& operator=(OutputFile const&) = delete;
  OutputFile& operator=(OutputFile&&) = delete;

  /// Appends `bytes`, which are written to the disk in large pieces. \throws OutputError
  void write(std::string_view bytes);

  /// Writes the rest and renames the file. Nothing can be written afterwards.
  /// \throws OutputError  Then neither file exists, unless `path` existed before.
  void finish();

 private:
  class Compressor;

  void put(std::string_view bytes);
  void put_compressed(std::string_view bytes, bool is_last);
  void put_on_disk(std::string_view bytes);
  [[noreturn]] void fail(int error);
  void discard();

  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::string waiting_;                     ///< not yet written
  std::unique_ptr<Compressor> compressor_;  ///< null: bytes are written as they are
  int descriptor_ = -1;
};

/// Refuses a path that cannot be written, before the work whose result goes there. Leaves no file.
/// \throws OutputError
void require_writable(std::filesystem::path const& path);

/// Writes a whole file at once. \throws OutputError  Then neither of the two files exists.
void write_output(std::filesystem::path const& path, std::string_view text);

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
