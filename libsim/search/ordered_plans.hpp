#pragma once

#include <vector>

#include "libsim/search/candidate.hpp"

namespace stagecraft {

/// The number of best layouts that are tried with schedules that follow an order.
inline constexpr std::size_t tried_layouts = 16;

/// Whether a search can try the kind on the layouts that it has found: its order follows from its
/// shape alone, and no device holds parts of two copies of the model.
bool is_tried(ScheduleKind kind);

/// The legal runs of the layout of a candidate, with each of the filter's `ordered` kinds.
/// Recompute is the layout's own, none, selective, full of whole chunks, and full of up to six
/// numbers of a chunk's layers. Stages are cut as they are into the chunks that a kind has;
/// interleaved_zb is tried with two to four.
std::vector<TrainingConfig> ordered_runs(SearchRequest const& request,
                                         Candidates const& candidates,
                                         Candidate const& plan);

}  // namespace stagecraft
