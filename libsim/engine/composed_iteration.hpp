#pragma once

#include <map>
#include <vector>

#include "libsim/engine/priced_plan.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// A work of a stage and how long it took where the stage's rank ran alone, so that no
/// data-parallel stream slowed it down.
struct MeasuredWork {
  Work work;
  SimTime duration{0};  ///< median over the iteration; of what happens once in it, the one time
};

/// What the works of a rank took, by work, from its trace at chunk detail. Works that the iteration
/// never came to are left out.
/// \throws std::invalid_argument  unless the trace has one row for each work that the rank runs.
std::vector<MeasuredWork> measured_works(RankPlan const& rank, RankTrace const& trace);

/// How long an iteration of a plan takes whose stages take measured times: its works one by one as
/// play() has them, messages at their price. Stages that were not measured are like the nearest
/// measured one of their recompute policy that is neither the first nor the last. What a system
/// adds to each iteration is not in it.
///
/// \param stages  measured works by stage, of this plan or of one with another number of
///        microbatches: a few of them show a stage's steady state.
/// \throws std::invalid_argument  naming the stage, where a work of the plan was not measured.
SimTime compose_iteration(PricedPlan const& priced,
                          std::map<std::int32_t, std::vector<MeasuredWork>> const& stages);

}  // namespace stagecraft
