#pragma once

#include <string_view>

#include "libsim/schedule/orders/placement.hpp"
#include "libsim/schedule/schedule_shape.hpp"

namespace stagecraft {

/// The properties of a kind of schedule that has no order of its own (has_order()). A new kind is a
/// row of the table in schedule_rules.cpp.
struct ScheduleRules {
  std::string_view title;     ///< name in texts: "interleaved 1F1B"
  bool takes_chunks = false;  ///< a stage may have several chunks; microbatches come in groups
  /// Whether every stage alternates between one forward and one backward after the warm-up, so that
  /// there is a steady-state loop (find_loop).
  bool alternates = false;
  Placement (*placement)(ScheduleShape const& shape) = nullptr;
  /// Forwards that a stage runs before its first backward.
  int (*warmup)(ScheduleShape const& shape, StageId stage) = nullptr;
};

/// Pre: !has_order(kind).
ScheduleRules const& rules_of(ScheduleKind kind);

}  // namespace stagecraft
