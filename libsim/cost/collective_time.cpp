#include "libsim/cost/collective_time.hpp"

#include <algorithm>
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

CollectiveCost const& cost_of(Collective collective, Node const& node) {
  switch (collective) {
    case Collective::all_reduce:
      return node.all_reduce.value;
    case Collective::all_gather:
      return node.all_gather.value;
    case Collective::reduce_scatter:
      return node.reduce_scatter.value;
  }
  return node.all_reduce.value;
}

}  // namespace

double ring_bytes(Collective collective, Bytes whole, int ranks) {
  double const share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  double const once = share * static_cast<double>(whole.count());
  return collective == Collective::all_reduce ? 2 * once : once;
}

Seconds node_collective_time(Collective collective, Bytes whole, int ranks, Node const& node) {
  if (ranks == 1) return Seconds{0};
  CollectiveCost const& cost = cost_of(collective, node);
  if (cost.table.empty()) {
    return Seconds{cost.latency.value +
                   ring_bytes(collective, whole, ranks) / cost.bandwidth.value};
  }
  // The table's time for the tensor of which its ranks would move as many bytes as ours do.
  double const bytes = ring_bytes(collective, whole, ranks) /
                       ring_bytes(collective, Bytes{1 << 20}, cost.ranks) * (1 << 20);
  return Seconds{interpolate(cost.table, bytes)};
}

Seconds network_collective_time(Collective collective,
                                Bytes whole,
                                int ranks,
                                Network const& network) {
  if (ranks == 1) return Seconds{0};
  int const steps = collective == Collective::all_reduce ? 2 * (ranks - 1) : ranks - 1;
  double const rate = network.bandwidth.value.value * network.efficiency.value;
  return Seconds{static_cast<double>(steps) * network.latency.value.value +
                 ring_bytes(collective, whole, ranks) / rate};
}

}  // namespace stagecraft
