#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// The load of experts with so many rows each: how long their products take, as far as a plan can
/// know it, in rows.
std::int64_t load_of(std::vector<std::int64_t> const& by_expert);

/// The ranks that the others wait for at the end of an iteration. Within its passes a rank waits
/// for those with which it communicates there, which are all of the stage if routers count choices
/// over the global batch: each of these sets takes as long as its rank with the largest load, layer
/// by layer and microbatch by microbatch. Of the sets, the one whose largest loads have the largest
/// sum; the first of several. `load_of_set` gives that sum of a set.
std::vector<int> find_last_ranks(
    TrainingPlan const& plan,
    std::function<std::int64_t(std::vector<int> const&)> const& load_of_set);

}  // namespace stagecraft
