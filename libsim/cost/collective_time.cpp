#include "libsim/cost/collective_time.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

namespace stagecraft {
namespace {

/// Piecewise linear through the points; below the first a constant, beyond the last its last slope.
double interpolate(std::vector<CollectivePoint> const& table, double bytes) {
  auto const size = [&](std::size_t i) { return static_cast<double>(table[i].size.count()); };
  auto const time = [&](std::size_t i) { return table[i].duration.value; };
  if (bytes <= size(0) || table.size() == 1) return time(0);
  std::size_t upper = 1;
  while (upper + 1 < table.size() && size(upper) < bytes) ++upper;
  double const slope = (time(upper) - time(upper - 1)) / (size(upper) - size(upper - 1));
  return time(upper - 1) + slope * (bytes - size(upper - 1));
}

CollectiveCost const& cost_of(OpKind kind, Node const& node) {
  switch (kind) {
    case OpKind::all_reduce:
      return node.all_reduce.value;
    case OpKind::all_gather:
      return node.all_gather.value;
    case OpKind::reduce_scatter:
      return node.reduce_scatter.value;
    default:
      throw std::logic_error{std::string{name_of(kind)} + " has no cost as a collective"};
  }
}

/// How often a ring moves each rank's share of the whole tensor.
int rounds_of(OpKind kind) { return kind == OpKind::all_reduce ? 2 : 1; }

/// The rate that holds for a number of nodes; 0 if no rate is given.
double rate_at(RateByNodes const& rates, int nodes) {
  auto above = rates.upper_bound(nodes);
  if (rates.empty()) return 0;
  if (above != rates.begin()) --above;
  return above->second.value;
}

/// The rate at which the bytes of a ring pass through the adapters that a group has, as measured on
/// a system; 0 if it was not.
double measured_rate(OpKind kind, NodeSpread spread, System const& system) {
  Network const& network = system.network;
  double const part = static_cast<double>(spread.fewest()) / system.node.accelerators.value;
  if (kind != OpKind::all_reduce) {
    return rate_at(network.gather_bandwidth.value, spread.nodes()) * part;
  }
  return part == 1 ? rate_at(network.bus_bandwidth.value, spread.nodes()) : 0;
}

}  // namespace

double ring_bytes(OpKind kind, Bytes whole, int ranks) {
  double const share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return rounds_of(kind) * (share * static_cast<double>(whole.count()));
}

Seconds node_collective_time(OpKind kind, Bytes whole, int ranks, Node const& node) {
  if (ranks == 1) return Seconds{0};
  CollectiveCost const& cost = cost_of(kind, node);
  bool const is_bus_given = kind == OpKind::all_reduce && node.bus_bandwidth.value.value > 0;
  if (cost.table.empty() || is_bus_given) {
    double const rate = is_bus_given ? node.bus_bandwidth.value.value : cost.bandwidth.value;
    double const least = cost.table.empty() ? 0 : cost.table.front().duration.value;
    return Seconds{std::max(least, cost.latency.value + ring_bytes(kind, whole, ranks) / rate)};
  }
  // The table's time for the tensor of which its ranks would move as many bytes as ours do.
  double const bytes =
      ring_bytes(kind, whole, ranks) / ring_bytes(kind, Bytes{1 << 20}, cost.ranks) * (1 << 20);
  return Seconds{interpolate(cost.table, bytes)};
}

BytesPerSecond network_share(System const& system) {
  Network const& network = system.network;
  double const accelerators = system.node.accelerators.value;
  double const adapters = network.adapters.value > 0 ? network.adapters.value : accelerators;
  return {network.bandwidth.value.value * network.efficiency.value * adapters / accelerators};
}

Seconds network_collective_time(OpKind kind, Bytes whole, NodeSpread spread, System const& system) {
  if (spread.ranks == 1) return Seconds{0};
  Network const& network = system.network;
  double const measured = measured_rate(kind, spread, system);
  double const rate = measured > 0 ? measured : spread.fewest() * network_share(system).value;
  double const transfer = ring_bytes(kind, whole, spread.ranks) / rate;
  double const step = network.latency.value.value;
  Seconds const ring{rounds_of(kind) * (spread.ranks - 1) * step + transfer};
  if (kind != OpKind::all_reduce) return ring;
  double const tree_bandwidth = measured > 0 ? 1 : 0.92;  // what was measured may be a tree's
  double const depth = std::ceil(std::log2(spread.nodes()));
  return Seconds{std::min(ring.value, 2 * depth * step + transfer / tree_bandwidth)};
}

}  // namespace stagecraft
