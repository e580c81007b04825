#include "libsim/cost/oversubscription.hpp"

#include <algorithm>

namespace stagecraft {
namespace {

/// The slowdown if a part of what nodes send passes the border of their unit.
double slowdown_of(double passing, System const& system) {
  return std::max(1.0, passing * system.network.topology.value.oversubscription);
}

/// The part of a unit's nodes that send beyond it if each node sends to the one `distance` nodes
/// on.
double passing_nodes(int distance, int unit) {
  return std::min(1.0, static_cast<double>(distance) / unit);
}

}  // namespace

double border_slowdown(OpKind kind, NodeSpread spread, System const& system) {
  int const unit = nodes_per_unit(system.node, system.network);
  int const nodes = spread.nodes();
  bool const is_in_one_unit =
      unit == 0 || nodes == 1 || (nodes - 1) * spread.stride + spread.abreast <= unit;
  if (is_in_one_unit) return 1;
  if (kind != OpKind::all_to_all) return slowdown_of(passing_nodes(spread.abreast, unit), system);
  double const together = std::max(1.0, static_cast<double>(unit) / spread.stride);
  return slowdown_of((nodes - together) / (nodes - 1), system);
}

double border_slowdown(StageNodes stages, System const& system) {
  int const unit = nodes_per_unit(system.node, system.network);
  int const last = stages.nodes - 1;
  bool const is_in_one_unit =
      unit == 0 || (stages.from / unit == stages.to / unit &&
                    (stages.from + last) / unit == (stages.to + last) / unit);
  return is_in_one_unit ? 1 : slowdown_of(passing_nodes(stages.nodes, unit), system);
}

}  // namespace stagecraft
