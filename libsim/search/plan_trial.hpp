#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/search/reserved_stages.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/standings.hpp"

namespace stagecraft {

/// The result of simulating a plan of the space.
struct Trial {
  Outcome outcome;
  bool is_wanted = true;           ///< it may belong to the answer by its time
  std::vector<StageId> refused{};  ///< stages that do not fit, or leave too little
  /// With what its allocators reserve, if they were replayed for all stages.
  std::optional<Simulation> simulation{};

  bool fits() const { return is_wanted && refused.empty() && simulation.has_value(); }
};

/// Whether a plan may belong to the answer, by what its simulation says.
using MayBelong = std::function<bool(Outcome const&)>;

/// Simulates a plan, and replays its allocators if it may belong to the answer. Stages in
/// `changed`, whose policies differ from those of a plan that was tried, are replayed first.
/// `most`: what a stage may hold by counted bytes (most_counted()). `known`: of this search.
Trial try_plan(SearchRequest const& request,
               ReservedStages& known,
               TrainingConfig const& config,
               std::vector<StageId> const& changed,
               std::size_t plan,
               Bytes most,
               MayBelong const& may_belong);

/// The plan's simulation, with what its allocators reserve.
Simulation simulate_with_reservations(SearchRequest const& request,
                                      TrainingConfig const& config,
                                      int jobs = 1);

}  // namespace stagecraft
