#pragma once

#include <mutex>

#include "libexec/comm/job_session.hpp"
#include "libexec/comm/process_environment.hpp"

namespace stagecraft {

/// One process of a job that a launcher started. The launcher (torchrun, mpirun, srun) ends the
/// other processes when one exits with an error or is killed.
class LaunchedProcess final : public JobSession {
 public:
  LaunchedProcess(ProcessPlace place, Describe describe);

  RankId rank() const override { return RankId{place_.rank}; }
  int size() const override { return place_.size; }
  ProcessPlace const& place() const { return place_; }

  /// Rank 0 reports at once, the others a second later. So an error of all ranks, such as one in
  /// the configuration, is reported by rank 0 alone, because its end ends the others.
  [[noreturn]] void fail(std::exception_ptr const& error) override;

 private:
  ProcessPlace place_;
  Describe describe_;
  std::mutex failing_;
};

}  // namespace stagecraft
