#pragma once

#include "libexec/executor/parameter_store.hpp"

namespace stagecraft {

/// Sets the initial values of a rank's parameters. They are random numbers from a counter of the
/// whole tensor's name and the index in it, so every layout has the same. Padding rows are zero.
void start_parameters(RankContext const& context, ParameterStore& store);

/// Sets them to arbitrary small random numbers, in a fraction of the time, for runs that are only
/// timed.
void fill_parameters(RankContext const& context, ParameterStore& store);

}  // namespace stagecraft
