#pragma once

#include <string>

#include "apps/stagecraft/plan/plan_question.hpp"

namespace stagecraft {

/// Restricts the search to what --launchable names.
/// \throws CommandLineError  if it can run no plan of the model.
void read_launchable(std::string const& text, PlanOptions& options);

/// Asks for the best plan that the flags of the software stack can say, if they can say the model.
/// The model then computes in their order, with a warning if that is another one.
void seek_launchable(PlanOptions& options);

/// Leaves sets of modules that are recomputed out of the search if the framework whose
/// settings are printed has none.
/// \throws CommandLineError  if --fix asks for nothing else.
void check_modules(PlanOptions& options);

}  // namespace stagecraft
