#pragma once

#include <string>

#include "apps/stagecraft/plan/plan_answer.hpp"

namespace stagecraft {

/// The most lines that `plan` prints unless --all or --front is given.
inline constexpr int screen_lines = 40;

/// The answer as text, in lines of `width` columns: what was searched, the best plans, the stages
/// of the first, what to know of it, and the flags that start the best plan that can be launched.
/// Pre: some plan fits.
std::string plan_text(PlanAnswer const& answer, PlanQuestion const& question, int width);

}  // namespace stagecraft
