#pragma once

#include <string>

#include "apps/stagecraft/plan/plan_answer.hpp"

namespace stagecraft {

/// The page of `plan --report`: the best plans of all clusters, and of each cluster the best that
/// can be launched. Pre: some plan fits.
std::string plan_page(PlanAnswer const& answer, PlanQuestion const& question);

}  // namespace stagecraft
