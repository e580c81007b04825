#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "libexec/comm/mpi_operation.hpp"

namespace stagecraft {

/// On rank 0: waits for a process that fails, says why, and ends the job.
class MpiFailureListener final : public MpiOperation {
 public:
  MpiFailureListener();
  /// Before MPI_Finalize.
  ~MpiFailureListener() override;
  MpiFailureListener(MpiFailureListener const&) = delete;
  MpiFailureListener(MpiFailureListener&&) = delete;
  MpiFailureListener& operator=(MpiFailureListener const&) = delete;
  MpiFailureListener& operator=(MpiFailureListener&&) = delete;
  Progress advance() override;
  std::string description() const override { return "a process that fails"; }

 private:
  std::vector<std::byte> text_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// A process that fails: rank 0 says why and ends the job. Any other tells rank 0, and ends the job
/// itself where rank 0 does not within two seconds (it may wait inside MPI, or be gone).
class MpiFailureReport final : public MpiOperation {
 public:
  MpiFailureReport(int rank, int exit_code, std::string const& reason);
  /// Returns `none` until the process has ended.
  Progress advance() override;
  std::string description() const override { return "the end of all processes"; }

 private:
  int rank_;
  int exit_code_;
  std::string reason_;
  std::vector<std::byte> text_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool is_sent_ = false;
  std::chrono::steady_clock::time_point patience_;
};

}  // namespace stagecraft
