#include "libsim/plan/stage_exchanges.hpp"

namespace stagecraft {

int message_rows(ScheduleShape const& shape) { return 2 * (shape.stages * shape.chunks - 1); }

int message_count(ScheduleShape const& shape) { return message_rows(shape) * shape.microbatches; }

}  // namespace stagecraft
