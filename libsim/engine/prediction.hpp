#pragma once

#include <cstdint>
#include <vector>

#include "libsim/hardware/system.hpp"
#include "libsim/program/category_bytes.hpp"
#include "libsim/training/settled_config.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The memory that one stage holds, as in StageResult.
struct StagePrediction {
  CategoryBytes at_peak;
  std::int64_t activation_peak = 0;
  std::int32_t in_flight_chunks = 0;
  int rank = 0;  ///< number in its stage of the rank that holds most

  std::int64_t peak() const { return at_peak.sum(); }
};

/// The results of a simulation that a search needs, as in Simulation.
struct Prediction {
  SimTime iteration{0};
  std::vector<StagePrediction> stages;
  double relative_error = 0;  ///< of the iteration, before calibration (ErrorTerms)
  int loops = 1;              ///< repetitions of the steady phase in the schedule
  int loops_left_out = 0;     ///< repetitions that were left out because they repeat others
};

/// Simulates an iteration as simulate(make_plan(config), system) does, to the picosecond and the
/// byte, in a fraction of the time: nothing is recorded, and once the steady-state loop is found to
/// repeat itself, the rest of it is left out (play_to_end).
/// Pre: `config` was checked by its reader.
/// \throws ScheduleError  for an illegal schedule shape. \throws CostError  if the system cannot
/// cost the plan.
Prediction predict(SettledConfig const& config, System const& system);

}  // namespace stagecraft
