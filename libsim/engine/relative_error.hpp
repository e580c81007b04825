#pragma once

#include "libsim/engine/player/costed_plan.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// Fractions of an iteration's time. All time in one of them has the same error.
struct ErrorTerms {
  double products = 0;  ///< matrix products and attention
  double kernels = 0;   ///< other kernels, and those of the optimizer
  double node = 0;      ///< exposed collectives of groups within a node
  double network = 0;   ///< exposed collectives over the network, messages and waiting for them
  double host = 0;      ///< passes that wait for the host, and fixed costs
  double hidden = 0;    ///< collectives that run beside computation, as if nothing hid them
  bool is_network_measured = false;  ///< whether the system gives bus bandwidths between nodes
  /// Whether the stack's host times were fitted to measured runs.
  bool is_host_fitted = false;
};

/// The parts of an iteration's time, on the stage that is busy longest. A bubble is counted as the
/// computation of other stages, because it lasts as long. For the streams of a pass, the durations
/// of the ops are counted; the rest of the pass is exposed communication.
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
