#pragma once

#include <string>

#include "libsim/host/file_error.hpp"

namespace stagecraft {

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

}  // namespace stagecraft
