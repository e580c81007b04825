#pragma once

#include <cstdint>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/engine/stage_allocators.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/units/ids.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// What a stage of a plan that may fit holds at most by counted bytes, workspace apart. Counted
/// bytes refuse only what the device would refuse as well: what an allocator reserves beyond them,
/// and what communicators hold, is known after its replay alone (refused_stages()).
Bytes most_counted(SearchRequest const& request);

/// Whether a stage of a plan fits, leaves the margin on its device, and, if there is a margin,
/// needs no retry: an allocator that releases its cache has taken all that it found. `peak`: what
/// the stage holds by counted bytes.
bool accepts(SearchRequest const& request,
             TrainingConfig const& config,
             ReservedStage const& stage,
             std::int64_t peak);

/// What the stage with the least room leaves of its device: the least `margin_bytes` of `simulate`.
/// Pre: add_reservations() has run.
Bytes least_margin(Simulation const& simulation);

/// The stages because of which a simulated plan is not in the answer: those that accepts() refuses.
/// If there are none, and the plan is not as safe as the request asks, the stage that is least
/// likely to live. Empty if the plan belongs to the answer. Pre: add_reservations() has run.
std::vector<StageId> refused_stages(SearchRequest const& request,
                                    TrainingConfig const& config,
                                    Simulation const& simulation);

}  // namespace stagecraft
