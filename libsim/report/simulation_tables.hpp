#pragma once

#include <array>
#include <string>
#include <string_view>

#include "libsim/engine/simulation.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// "174.62 billion parameters"; for smaller models in millions or thousands.
std::string parameters_text(ModelConfig const& model);

/// Lines that say what is run, on which system, and how it is parallelized.
std::string run_title(TrainingPlan const& plan, System const& system);

/// What waiting is, in every table.
inline constexpr std::string_view waiting_words = "waiting (bubble and exposed communication): ";

/// "waiting (bubble and exposed communication): 0.605 s on the busiest stage, 4.4 % of the
/// iteration"
std::string waiting_text(Simulation const& simulation);

/// A part of an iteration's time, by the name that people read.
struct BreakdownPart {
  std::string_view name;
  SimTime time{0};
};

/// How the busiest stage spends an iteration; the parts sum to it.
std::array<BreakdownPart, 10> parts_of(Breakdown const& breakdown);

/// How long ranks of a stage wait for those that compute more rows, as the end of a sentence.
/// Pre: stage.rank_busy is set.
std::string waits_for_rows(StageResult const& stage);

/// A simulation for people: what was run, how long an iteration takes and what the busiest stage
/// spends its time on, and one line per stage with its memory by category in GiB.
std::string simulation_tables(Simulation const& simulation,
                              TrainingPlan const& plan,
                              System const& system);

}  // namespace stagecraft
