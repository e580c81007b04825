#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

namespace stagecraft {

/// A trace that cannot be read: missing, damaged, or of another version. The user's file; exit
/// code 2.
class TraceFileError : public std::runtime_error {
 public:
  /// The message is `file: problem`.
  TraceFileError(std::string const& file, std::string const& problem)
      : std::runtime_error{file + ": " + problem} {}
};

/// A result that cannot be written: no such folder, disk full. The world's fault; exit code 1.
class OutputError : public std::runtime_error {
 public:
  /// The message is `could not write path: reason`.
  OutputError(std::filesystem::path const& path, std::string const& reason)
      : std::runtime_error{"could not write " + path.string() + ": " + reason} {}
};

}  // namespace stagecraft
