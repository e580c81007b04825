#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/training/settled_config.hpp"

namespace stagecraft {

/// The same run with everything decided that follows from costs or from a system's memory, so that
/// a plan can be made of it. First a schedule whose order depends on costs becomes the order itself
/// (with_settled_order()). Then windows of stored microbatches become numbers
/// (resolve_store_windows()).
/// Pre: `config` was checked by its reader.
/// \throws ScheduleError  if the schedule has no order for the run; the message says why.
SettledConfig settled(TrainingConfig config, System const& system);

/// Makes the order of a schedule that depends on costs (depends_on_costs()). Generators know one
/// chunk: it takes the time, and holds the memory, that the plan's chunks do on average; a message
/// takes the longest time of any. Memory limits count in forwards of such a chunk, or in the memory
/// that waits for its weight gradient if that is more.
///
/// `searched` is the best of all known orders (known_orders()), each judged by a prediction of the
/// run with it: orders that fit come first, then the fastest, then the one that holds least. So no
/// named schedule within the limit is better, if its messages overlap.
///
/// If recompute may run early, any schedule but a given order becomes an order with tasks for
/// recompute (with_early_recompute()), made with the times of each chunk.
/// \throws ScheduleError  if settled() does.
TrainingConfig with_settled_order(TrainingConfig config, System const& system);

}  // namespace stagecraft
