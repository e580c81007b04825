#include "libexec/comm/launched_process.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace stagecraft {

LaunchedProcess::LaunchedProcess(ProcessPlace place, Describe describe)
    : place_{std::move(place)}, describe_{std::move(describe)} {}

void LaunchedProcess::fail(std::exception_ptr const& error) {
  std::scoped_lock const only_one_thread{failing_};
  ErrorReport const report = describe_(error);
  if (rank() != RankId{0}) std::this_thread::sleep_for(std::chrono::seconds{1});
  std::fputs(report.reason.c_str(), stderr);  // std::cerr is silent on all ranks but the first
  std::fflush(stderr);
  std::_Exit(report.exit_code);
}

}  // namespace stagecraft
