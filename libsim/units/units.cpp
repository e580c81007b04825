#include "libsim/units/units.hpp"

#include <cmath>

namespace stagecraft {

SimTime to_sim_time(double seconds) { return SimTime{std::llround(seconds * 1e12)}; }

}  // namespace stagecraft
