#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// How many measured runs of a system predictions were compared with, and how far they were off.
struct ComparedRuns {
  std::string system;
  int runs = 0;
  double median_percent = 0;  ///< of the errors of the iteration's time
};

/// That of configs/compared.yaml; null if no run of a system of this name was measured.
ComparedRuns const* compared_runs_of(std::string_view system);

}  // namespace stagecraft
