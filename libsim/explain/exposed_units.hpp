#pragma once

#include <string_view>
#include <vector>

#include "libsim/cost/cost_model.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// For how long passes of one kind of block wait for collectives of sharded units in an iteration.
struct ExposedUnits {
  Pass pass = Pass::forward;
  BlockProgram::Kind block = BlockProgram::Kind::layers;  ///< that waits
  bool is_gather = true;                                  ///< else a reduction
  SimTime seconds{0};                                     ///< of all microbatches of a replica
};

/// "embedding", "layers", "head"
constexpr std::string_view name_of_block(BlockProgram::Kind kind) {
  return kind == BlockProgram::Kind::head        ? "head"
         : kind == BlockProgram::Kind::embedding ? "embedding"
                                                 : "layers";
}

/// What no computation hides, the longest first; copies of gathered parameters are not counted.
/// Empty if the plan has no such units.
std::vector<ExposedUnits> exposed_units(TrainingPlan const& plan, CostModel const& cost);

}  // namespace stagecraft
