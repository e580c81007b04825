#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

namespace stagecraft {

/// A file of the user's that cannot be read: missing, damaged, or of another version. The message
/// names it and says what is wrong. Exit code 2.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A result that cannot be written: no such folder, disk full. The world's fault; exit code 1.
class OutputError : public std::runtime_error {
 public:
  /// The message is `could not write path: reason`.
  OutputError(std::filesystem::path const& path, std::string const& reason)
      : std::runtime_error{"could not write " + path.string() + ": " + reason} {}
};

}  // namespace stagecraft
