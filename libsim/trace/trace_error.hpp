#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

namespace stagecraft {

/// An input file that cannot be read: missing, damaged, or of another version. The message
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

/// An intact HDF5 file that is not a trace: without a schema, or with another one.
class ForeignFileError : public TraceFileError {
 public:
  using TraceFileError::TraceFileError;
};

/// A result that cannot be written: no such folder, disk full. Exit code 1.
class OutputError : public std::runtime_error {
 public:
  /// The message is `could not write path: reason`.
  OutputError(std::filesystem::path const& path, std::string const& reason)
      : std::runtime_error{"could not write " + path.string() + ": " + reason} {}
};

}  // namespace stagecraft
