#include "libsim/cost/collective_time.hpp"

#include <algorithm>
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

}  // namespace

double ring_bytes(OpKind kind, Bytes whole, int ranks) {
  double const share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return rounds_of(kind) * (share * static_cast<double>(whole.count()));
}

Seconds node_collective_time(OpKind kind, Bytes whole, int ranks, Node const& node) {
  if (ranks == 1) return Seconds{0};
  CollectiveCost const& cost = cost_of(kind, node);
  if (cost.table.empty()) {
    return Seconds{cost.latency.value + ring_bytes(kind, whole, ranks) / cost.bandwidth.value};
  }
  // The table's time for the tensor of which its ranks would move as many bytes as ours do.
  double const bytes =
      ring_bytes(kind, whole, ranks) / ring_bytes(kind, Bytes{1 << 20}, cost.ranks) * (1 << 20);
  return Seconds{interpolate(cost.table, bytes)};
}

Seconds network_collective_time(OpKind kind, Bytes whole, int ranks, Network const& network) {
  if (ranks == 1) return Seconds{0};
  int const steps = rounds_of(kind) * (ranks - 1);
  double const rate = network.bandwidth.value.value * network.efficiency.value;
  return Seconds{static_cast<double>(steps) * network.latency.value.value +
                 ring_bytes(kind, whole, ranks) / rate};
}

}  // namespace stagecraft
