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

/// A trace that cannot be read.
class TraceFileError : public InputError {
 public:
  /// The message is `file: problem`.
  TraceFileError(std::string const& file, std::string const& problem)
      : InputError{file + ": " + problem} {}
};

/// A sound HDF5 file of something else: without a schema, or with one that is no trace's.
class ForeignFileError : public TraceFileError {
 public:
  using TraceFileError::TraceFileError;
};

/// A result that cannot be written: no such folder, disk full. The world's fault; exit code 1.
class OutputError : public std::runtime_error {
 public:
  /// The message is `could not write path: reason`.
  OutputError(std::filesystem::path const& path, std::string const& reason)
      : std::runtime_error{"could not write " + path.string() + ": " + reason} {}
};

}  // namespace stagecraft
