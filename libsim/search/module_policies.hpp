#pragma once

#include <string>
#include <vector>

#include "libsim/search/search_request.hpp"

namespace stagecraft {

/// The sets of modules that a run's layers may recompute, as policies of kind `modules` that cost
/// ever more time and save ever more memory: what is made again from outputs that are discarded
/// (with the core of attention where its kernel stores the scores); with it the checkpoints that
/// have no other region inside; and these with the checkpoints around regions in their place. Only
/// modules that the model has and that the run's other keys allow. No two are equal, and none is
/// the default of selective recompute. Empty if the request's stack recomputes no such modules.
std::vector<PolicyCode> module_policies(SearchRequest const& request);

/// The same of a run, whatever its stack is.
std::vector<PolicyCode> module_policies(TrainingConfig const& config);

/// The modules that a policy of kind `modules` recomputes.
std::vector<std::string> modules_of(PolicyCode code);

}  // namespace stagecraft
