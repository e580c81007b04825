#include "libsim/search/closest_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <tuple>
#include <vector>

#include "libsim/host/worker_pool.hpp"
#include "libsim/search/candidate_source.hpp"
#include "libsim/search/plan_trial.hpp"

namespace stagecraft {
namespace {

/// Keeps of the shapes that differ only in the microbatch size the first, which holds least.
void keep_smallest_microbatches(std::vector<ShapeChoice>& shapes) {
  std::set<std::tuple<int, int, bool, int, int>> seen;
  std::erase_if(shapes, [&](ShapeChoice const& shape) {
    return !seen.emplace(shape.tensor, shape.context, shape.sequence, shape.expert,
                         shape.expert_tensor)
                .second;
  });
}

/// Says what the plan lacks on its device, which may be more than by counted bytes.
void ask_device(NearMiss& miss, SearchRequest const& request) {
  TrainingConfig const config =
      make_config(request, miss.arrangement, {policy_of(miss.policy)}, miss.sharding);
  Simulation const simulation = simulate_with_reservations(request, config, request.jobs);
  miss.fits_without_margin =
      std::ranges::all_of(simulation.stages, [](StageResult const& stage) { return stage.fits; });
  for (StageResult const& stage : simulation.stages) {
    std::int64_t const lacking = request.margin - stage.margin;
    if (lacking <= miss.excess) continue;
    miss.excess = lacking;
    miss.stage = StageId{stage.stage};
  }
}

}  // namespace

std::optional<NearMiss> closest_plan(SearchRequest const& request) {
  SearchRequest dismissing = request;  // an exhaustive search has no plans that were dismissed
  dismissing.exhaustive = false;
  CandidateSource source{dismissing};
  std::vector<ShapeChoice> shapes = shape_choices(request);
  if (has_experts(request.base.model)) keep_smallest_microbatches(shapes);
  std::vector<std::optional<NearMiss>> misses(shapes.size());
  constexpr auto looked_at = CandidateSource::Hopeless::looked_at;
  parallel_for(request.jobs, shapes.size(), [&](std::size_t i) {
    Candidates found = source.units(shapes[i], looked_at);
    if (searches_whole(request)) {
      found.append(
          has_rules(request.filter)
              ? source.of(shapes[i], looked_at)
              : source.ordered(shapes[i], looked_at, std::numeric_limits<double>::infinity()));
    }
    misses[i] = found.closest;
  });
  std::optional<NearMiss> least;
  for (auto const& miss : misses) {
    if (miss && (!least || miss->excess < least->excess)) least = miss;
  }
  if (least) ask_device(*least, request);
  return least;
}

}  // namespace stagecraft
