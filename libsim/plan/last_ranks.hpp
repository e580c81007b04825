#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The load of experts that have these numbers of rows: the duration of their products in units of
/// rows, as far as a plan can know it.
std::int64_t load_of(std::vector<std::int64_t> const& by_expert);

/// The ranks that the others wait for at the end of an iteration.
///
/// During its passes a rank waits for the ranks with which it communicates there: all ranks of the
/// stage, if routers count choices over the global batch. Each of these sets takes as long as its
/// rank with the largest load, layer by layer and microbatch by microbatch. Returns the set whose
/// largest loads have the largest sum; the first of several. `load_of_set` gives that sum.
std::vector<int> find_last_ranks(
    TrainingPlan const& plan,
    std::function<std::int64_t(std::vector<int> const&)> const& load_of_set);

}  // namespace stagecraft
