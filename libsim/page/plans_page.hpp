#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/hardware/system.hpp"
#include "libsim/report/operation.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// A plan on a page that compares plans. What it points to outlives it.
struct PagePlan {
  std::string cluster;  ///< "16 x dgx-h100"
  std::string layout;   ///< in words
  std::string note;     ///< why it is here beside its rank, or empty
  TrainingConfig const* config = nullptr;
  Simulation const* simulation = nullptr;  ///< with reservations
  System const* system = nullptr;
  OperatingRates rates;
};

/// What a page that compares plans says besides.
struct PageQuestion {
  std::string title;
  std::vector<std::string> subtitle;  ///< a line each
  std::vector<std::string> remarks;   ///< on what is uncertain
  std::string command_line;
  std::string run_file;      ///< of the plan that the page recommends, YAML
  std::size_t headline = 0;  ///< the number of that plan: the best that can be started
  std::string faster;        ///< why the first plan is not recommended; empty if it is
};

/// One HTML file for those who decide: the plans with their time, memory and money, what the time
/// and the money are spent on, what the fullest device holds, and what is uncertain. It needs only
/// a browser, and no script.
///
/// All text is plain text. Pre: there is at least one plan; all have the same currency and tokens.
std::string plans_page(std::vector<PagePlan> const& plans, PageQuestion const& question);

}  // namespace stagecraft
