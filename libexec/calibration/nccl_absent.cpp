#include "libexec/calibration/nccl_measurement.hpp"
#include "libexec/comm/communication_error.hpp"

// What a build without NCCL has instead of it.

namespace stagecraft {

bool can_measure_nccl() { return false; }

NcclCosts measure_nccl(int /*ranks*/, NcclSizes const& /*sizes*/) {
  throw CommunicationError{"built without NCCL; configure with -DWITH_NCCL=ON"};
}

}  // namespace stagecraft
