#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "libexec/comm/mpi/mpi_operation.hpp"

namespace stagecraft {

/// On rank 0: waits for the error report of another process, prints it and ends the job.
class MpiFailureListener final : public MpiOperation {
 public:
  MpiFailureListener();
  /// Pre: MPI_Finalize has not been called.
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

/// The error report of this process. Rank 0 prints it and ends the job. Other ranks send it to rank
/// 0, and end the job themselves if rank 0 does not within two seconds: it may be blocked inside
/// MPI, or have died.
class MpiFailureReport final : public MpiOperation {
 public:
  MpiFailureReport(int rank, int exit_code, std::string const& reason);
  /// Always returns `none`; the process ends first.
  Progress advance() override;
  std::string description() const override { return "the end of all processes"; }

 private:
  int rank_;
  int exit_code_;
  std::string reason_;
  std::vector<std::byte> text_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool is_sent_ = false;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace stagecraft
