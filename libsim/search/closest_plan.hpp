#pragma once

#include <optional>

#include "libsim/search/candidate.hpp"
#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// The plan of a search that comes closest to fitting, if none fits: the one that has least too
/// much by counted bytes. Says what it lacks on its device. Returns nullopt if some plan fits by
/// counted bytes.
std::optional<NearMiss> closest_plan(SearchRequest const& request);

}  // namespace stagecraft
