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

/// A sound HDF5 file of something else: without a schema, or with one that is no trace's.
class ForeignFileError : public TraceFileError {
 public:
  using TraceFileError::TraceFileError;
};

}  // namespace stagecraft
