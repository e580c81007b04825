#pragma once

#include <vector>

#include "libsim/search/candidate.hpp"

namespace stagecraft {

/// How many of the best layouts are tried with schedules that follow an order.
inline constexpr std::size_t tried_layouts = 16;

/// Whether a search can try the kind on the layouts that it has found: its order follows from its
/// shape alone, and no device holds parts of two copies of the model.
bool is_tried(ScheduleKind kind);

/// The legal runs of a layout, whatever it was found with, with each of the filter's `ordered`
/// kinds, and with recompute: the layout's own, none, selective, full of whole chunks, and of up to
/// six numbers of a chunk's layers. `plan` is one of the candidates.
/// Chunks that a kind has are cut from the stages as they are; interleaved_zb is tried with two to
/// four.
std::vector<TrainingConfig> ordered_runs(SearchRequest const& request,
                                         Candidates const& candidates,
                                         Candidate const& plan);

}  // namespace stagecraft
