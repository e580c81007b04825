#include "libexec/comm/mpi/mpi_failure.hpp"

#include <cstdio>
#include <cstring>

#include "libexec/comm/mpi/mpi_check.hpp"

namespace stagecraft {
namespace {

/// On MPI_COMM_WORLD, which has no other messages.
constexpr int failure_tag = 1;
/// A report may list live tensors; it is cut off at this length.
constexpr std::size_t most_bytes = std::size_t{64} << 10;

void end_job(int exit_code, std::string const& reason) {
  std::fputs(reason.c_str(), stderr);  // std::cerr is silent on all ranks but the first
  MPI_Abort(MPI_COMM_WORLD, exit_code);
}

}  // namespace

MpiFailureListener::MpiFailureListener() : text_(most_bytes) {
  check(MPI_Irecv(text_.data(), static_cast<int>(text_.size()), MPI_BYTE, MPI_ANY_SOURCE,
                  failure_tag, MPI_COMM_WORLD, &request_));
}

MpiFailureListener::~MpiFailureListener() {
  if (request_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&request_);
  MPI_Wait(&request_, MPI_STATUS_IGNORE);
}

MpiOperation::Progress MpiFailureListener::advance() {
  int is_here = 0;
  MPI_Status status;
  int const result = MPI_Test(&request_, &is_here, &status);
  if (result != MPI_SUCCESS || is_here == 0) return Progress::none;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  int exit_code = 0;
  std::memcpy(&exit_code, text_.data(), sizeof exit_code);
  end_job(exit_code, {reinterpret_cast<char const*>(text_.data()) + sizeof exit_code,
                      static_cast<std::size_t>(bytes) - sizeof exit_code});
  return Progress::done;
}

MpiFailureReport::MpiFailureReport(int rank, int exit_code, std::string const& reason)
    : rank_{rank},
      exit_code_{exit_code},
      reason_{reason.substr(0, most_bytes - sizeof exit_code)},
      text_(sizeof exit_code + reason_.size()),
      deadline_{std::chrono::steady_clock::now() + std::chrono::seconds{2}} {
  std::memcpy(text_.data(), &exit_code, sizeof exit_code);
  std::memcpy(text_.data() + sizeof exit_code, reason_.data(), reason_.size());
}

MpiOperation::Progress MpiFailureReport::advance() {
  if (rank_ == 0 || std::chrono::steady_clock::now() > deadline_) end_job(exit_code_, reason_);
  if (is_sent_) {
    int is_done = 0;  // MPI sends long texts only inside of its calls
    if (request_ != MPI_REQUEST_NULL) MPI_Test(&request_, &is_done, MPI_STATUS_IGNORE);
    return Progress::none;
  }
  is_sent_ = true;
  MPI_Isend(text_.data(), static_cast<int>(text_.size()), MPI_BYTE, 0, failure_tag, MPI_COMM_WORLD,
            &request_);
  return Progress::none;
}

}  // namespace stagecraft
