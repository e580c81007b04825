#pragma once

#include <optional>

#include "libsim/schedule/schedule_config.hpp"

namespace stagecraft {

/// The shape of a pipeline schedule, without what its chunks compute.
struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int stages = 1;        ///< p
  int microbatches = 1;  ///< n, of one replica in one iteration
  int chunks = 1;        ///< m of the paper: chunks per stage
  int group = 0;         ///< interleaved: microbatches per group; 0 means p
  P2p p2p = P2p::blocking;
  /// Kinds that are laid out from an order (has_order()): the order, once it is made.
  SharedOrder order{};
  OrderVariant variant = OrderVariant::fixed;  ///< zbv
  std::optional<bool> fuse_adjacent{};         ///< see OrderRequest

  friend bool operator==(ScheduleShape const&, ScheduleShape const&) = default;
};

}  // namespace stagecraft
