#pragma once

#include <string>
#include <vector>

#include "apps/stagecraft/plan/plan_answer.hpp"

namespace stagecraft {

/// What to know of the best plans of an answer, in lines of any width: what matters most comes
/// first. Pre: some plan fits.
std::vector<std::string> plan_remarks(PlanAnswer const& answer, bool is_whole);

/// The part of it about what else was searched on a cluster, and what was not: plans that may be as
/// fast, other schedules, bounds. Pre: some plan of it fits.
std::vector<std::string> search_remarks(ClusterAnswer const& cluster, bool is_whole);

/// Why intervals do not say how sure a comparison of clusters is.
inline constexpr char const* comparison_remark =
    "an interval is of one machine: how far two machines err apart, nobody measured";

/// What was searched on a cluster, and for how long: a line, and more if `is_whole`.
std::string searched_text(ClusterAnswer const& cluster, bool is_whole);

/// What all plans leave free, for a heading.
std::string room_text(std::vector<ClusterAnswer> const& clusters);

}  // namespace stagecraft
