#include "libsim/training/settled_config.hpp"

#include <algorithm>

#include "libsim/schedule/ordered_schedule.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

SettledConfig as_settled(TrainingConfig config) {
  bool const has_open_window =
      std::any_of(config.recompute.begin(), config.recompute.end(),
                  [](auto const& policy) { return policy.store_microbatches.automatic; });
  if (has_open_window) {
    throw ScheduleError{"recompute.store_microbatches",
                        "'auto', which depends on a system's memory",
                        "a number, as from settled()"};
  }
  if (!config.schedule.order) {
    check_independent_of_costs(config.schedule.kind, config.schedule.variant);
  }
  if (recomputes_early(config) && config.schedule.kind != ScheduleKind::order) {
    throw ScheduleError{"recompute.early", "'bubble', whose places depend on costs",
                        "no, or an order that has them, as --print-config writes it"};
  }
  return SettledConfig{std::move(config)};
}

}  // namespace stagecraft
