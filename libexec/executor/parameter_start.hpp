#pragma once

#include "libexec/executor/parameter_store.hpp"

namespace stagecraft {

/// Gives the parameters of a rank their first values, by counter from the name of the whole tensor
/// and the index in it: the same for every layout. Padding rows are zero.
void start_parameters(RankContext const& context, ParameterStore& store);

/// Gives them small random numbers that mean nothing, in a fraction of the time: for ranks that run
/// alone, and whatever is only timed.
void fill_parameters(RankContext const& context, ParameterStore& store);

}  // namespace stagecraft
