#include "libexec/calibration/collective_measurement.hpp"
#include "libexec/comm/communicator.hpp"

// The functions that need NCCL, in a build without it.

namespace stagecraft {

bool can_measure_nccl() { return false; }

NcclCosts measure_nccl(int /*ranks*/, NcclSizes const& /*sizes*/) {
  throw CommunicationError{"built without NCCL; configure with -DWITH_NCCL=ON"};
}

}  // namespace stagecraft
