#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/stagecraft/plan/plan_question.hpp"
#include "libsim/explain/change_effect.hpp"
#include "libsim/search/plan_search.hpp"

namespace stagecraft {

/// What overlaps in every plan of a search because it is a matter of the framework, and what the
/// best plan would do otherwise. Keys parallel.overlap_gradients, and schedule.p2p if it is held.
/// Beside them, the kinds of sharding that the search has not.
struct UnsearchedOverlaps {
  TrainingConfig config;                       ///< the best plan, with what its stack decides
  bool holds_p2p = false;                      ///< whether one mode of transfers alone was searched
  bool has_whole = true;                       ///< whether plans without units were searched, too
  std::vector<std::string> other_shardings{};  ///< kinds that were not searched
  std::vector<ChangeEffect> effects;  ///< the other values, and both; only what changes the run
  RunFigures figures;                 ///< of the best plan
};

/// Simulates the best plan with the other values; with --launchable only with those that the
/// framework can run.
UnsearchedOverlaps unsearched_overlaps(FoundPlan const& best, PlanOptions const& options);

/// The lines that `plan` prints, the first of which says what was not searched.
std::string to_text(UnsearchedOverlaps const& overlaps);

/// Member `not_searched` of the document.
nlohmann::ordered_json to_json(UnsearchedOverlaps const& overlaps);

}  // namespace stagecraft
