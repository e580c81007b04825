#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "libsim/engine/simulation.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/stage_filling.hpp"
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

/// Simulates a plan, and replays its allocators if it may belong to the answer. `most`: what a
/// stage may hold by counted bytes (most_counted()).
Trial try_plan(SearchRequest const& request,
               TrainingConfig const& config,
               std::size_t plan,
               Bytes most,
               MayBelong const& may_belong);

/// The same of a plan in which some stages have other policies than in one that was tried: replays
/// the allocators of these first.
Trial try_filling(SearchRequest const& request,
                  StageFilling const& filling,
                  std::size_t plan,
                  Bytes most,
                  MayBelong const& may_belong);

/// The plan's simulation, with what its allocators reserve.
Simulation simulate_with_reservations(SearchRequest const& request,
                                      TrainingConfig const& config,
                                      int jobs = 1);

}  // namespace stagecraft
