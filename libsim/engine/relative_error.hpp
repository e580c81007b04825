#pragma once

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The fractions of an iteration's time that err together.
struct ErrorTerms {
  double products = 0;  ///< matrix products and attention
  double kernels = 0;   ///< other kernels, and the optimizer's
  double node = 0;      ///< exposed collectives of groups within a node
  double network = 0;   ///< exposed collectives over the network, messages and waiting for them
  double host = 0;      ///< passes that wait for the host, and fixed costs
  double hidden = 0;    ///< collectives that run beside computation, if they did not
  bool is_network_measured = false;  ///< the system gives bus bandwidths between nodes
  bool is_host_fitted = false;       ///< the stack's host times were fitted to measured runs
};

/// What the time of an iteration is made of, on the stage that is busy longest. A bubble takes as
/// long as what other stages compute, and is counted like it. Of the streams of a pass the ops'
/// own durations are counted; what remains of the pass is exposed communication.
ErrorTerms error_terms(CostedPlan const& costed, SimTime iteration);

/// The relative standard deviation of a time with these terms, before any calibration:
/// products 2 % in common and 2.5 % for each of some six shapes, other kernels 4 %, collectives
/// within a node 5 %, over the network 15 % or 5 % if its rates were measured, the host 20 % or 5 %
/// if its times were fitted, and 29 % of what is hidden (anything from none to all of it may be
/// exposed).
/// These are guesses of the right size; intervals are scaled by how far off predictions of measured
/// runs were.
double relative_error(ErrorTerms const& terms);

}  // namespace stagecraft
