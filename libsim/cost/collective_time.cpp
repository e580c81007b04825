#include "libsim/cost/collective_time.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "libsim/cost/oversubscription.hpp"

namespace stagecraft {
namespace {

CollectiveCost const& cost_of(OpKind kind, Node const& node) {
  switch (kind) {
    case OpKind::all_reduce:
      return node.all_reduce.value;
    case OpKind::all_gather:
    case OpKind::all_to_all:
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

BytesPerSecond network_share(System const& system) {
  Network const& network = system.network;
  return {network.bandwidth.value.value * network.efficiency.value *
          adapters_per_accelerator(system.node, network)};
}

namespace {

/// The nearest measured shape inside one node: one of the same kind if there is any, and among
/// those the nearest number of ranks.
CollectiveShape const* nearest_in_node(CollectiveTables const& tables, OpKind kind, int ranks) {
  CollectiveShape const* nearest = nullptr;
  auto const distance = [&](CollectiveShape const& shape) {
    return std::pair{shape.kind != kind, std::abs(shape.per_node - ranks)};
  };
  for (auto const& [shape, points] : tables) {
    if (shape.nodes != 1) continue;
    if (nearest == nullptr || distance(shape) < distance(*nearest)) nearest = &shape;
  }
  return nearest;
}

/// The least time of a collective if only the rate of large ones is given: the time of the smallest
/// one that was measured; 0 if none was.
double least_time(OpKind kind, int ranks, CollectiveCost const& cost, Node const& node) {
  if (!cost.table.empty()) return cost.table.front().duration.value;
  auto const& tables = node.collectives.value.tables;
  CollectiveShape const* const shape = tables ? nearest_in_node(*tables, kind, ranks) : nullptr;
  return shape == nullptr ? 0 : tables->at(*shape).front().duration.value;
}

/// The rate of a collective of large tensors over `ranks` ranks of one node: as given, or as the
/// largest one that was measured.
double node_rate(OpKind kind, int ranks, CollectiveCost const& cost, Node const& node) {
  if (cost.table.empty()) {
    if (cost.bandwidth.value > 0) return cost.bandwidth.value;
    auto const& tables = node.collectives.value.tables;
    bool const is_bus_given = node.bus_bandwidth.value.value > 0;
    CollectiveShape const* const shape =
        tables && !is_bus_given ? nearest_in_node(*tables, kind, ranks) : nullptr;
    if (shape == nullptr) return node.bus_bandwidth.value.value;
    auto const& [size, duration] = tables->at(*shape).back();
    return ring_bytes(shape->kind, size, shape->ranks()) / duration.value;
  }
  auto const& [size, duration] = cost.table.back();
  double const share = static_cast<double>(cost.ranks - 1) / cost.ranks;
  return share * static_cast<double>(size.count()) / duration.value;
}

/// Time inside one node by latency and bandwidth, or by a table for one number of ranks.
Seconds node_time(OpKind kind, Bytes whole, int ranks, Node const& node) {
  CollectiveCost const& cost = cost_of(kind, node);
  bool const is_bus_given = kind == OpKind::all_reduce && node.bus_bandwidth.value.value > 0;
  if (cost.table.empty() || is_bus_given) {
    double const rate = is_bus_given ? node.bus_bandwidth.value.value : cost.bandwidth.value;
    double const least = least_time(kind, ranks, cost, node);
    return Seconds{std::max(least, cost.latency.value + ring_bytes(kind, whole, ranks) / rate)};
  }
  // The table's time for a tensor whose size makes its ranks move as many bytes as ours do.
  double const bytes =
      ring_bytes(kind, whole, ranks) / ring_bytes(kind, Bytes{1 << 20}, cost.ranks) * (1 << 20);
  return Seconds{interpolate(cost.table, bytes)};
}

/// An all-to-all's part of the rate at which a node's links carry an all-gather.
/// Source: MooreThreads/SimuMax 4dcaae5, b200_bf16_ceperm.json: NCCL reaches 0.597 and 0.674 of the
/// links' peak.
constexpr double all_to_all_in_node = 0.886;
/// Its part of the rate of the network's adapters.
/// Source: arXiv:2603.07685, table 7, NCCL on H100: 40.7, 43.7 and 44.9 GB/s of 50 per rank leave
/// the nodes with 16, 32 and 64 ranks.
constexpr double all_to_all_on_network = 0.86;

/// The time in which each rank sends `near` bytes over the links of its node and, meanwhile, `far`
/// bytes over its part of the adapters.
Seconds exchange_time(double near, double far, NodeSpread spread, System const& system) {
  CollectiveCost const& links = cost_of(OpKind::all_to_all, system.node);
  int const together = std::min(spread.ranks, spread.per_node);
  double const beside =
      node_rate(OpKind::all_gather, together, links, system.node) * all_to_all_in_node;
  double const inside = near / beside;
  // If no latency is given, it takes no less than the smallest collective that was measured.
  bool const is_given = links.latency.value > 0 || links.bandwidth.value > 0 ||
                        !links.table.empty() || system.node.bus_bandwidth.value.value > 0;
  double const latency =
      is_given ? links.latency.value : least_time(OpKind::all_gather, together, links, system.node);
  if (spread.nodes() == 1) return Seconds{latency + inside};
  Network const& network = system.network;
  double const rate =
      network.bandwidth.value.value * adapters_per_accelerator(system.node, network);
  double const slowdown = border_slowdown(OpKind::all_to_all, spread, system);
  double const outside = slowdown * far / (rate * all_to_all_on_network);
  return Seconds{latency + network.latency.value.value + std::max(inside, outside)};
}

/// Every member sends a piece to every other one. Pieces that leave the node go through the
/// adapters, while the others go over the node's links.
Seconds all_to_all_time(Bytes sent, NodeSpread spread, System const& system) {
  auto const piece = static_cast<double>(sent.count()) / spread.ranks;
  int const near = std::min(spread.ranks, spread.per_node) - 1;
  int const far = spread.ranks - spread.fewest();
  return exchange_time(near * piece, far * piece, spread, system);
}

/// Every member sends to the next one: inside a node over its own link, between nodes with its
/// share of an adapter that several accelerators use.
Seconds ring_shift_time(Bytes sent, NodeSpread spread, System const& system) {
  auto const bytes = static_cast<double>(sent.count());
  if (spread.nodes() == 1) {
    CollectiveCost const& link = system.node.p2p.value;
    return Seconds{link.latency.value + bytes / link.bandwidth.value};
  }
  Network const& network = system.network;
  double const sharers = std::max(1.0, 1 / adapters_per_accelerator(system.node, network));
  double const rate = network_share(system).value * std::min<double>(spread.fewest(), sharers) /
                      border_slowdown(OpKind::ring_shift, spread, system);
  return Seconds{network.latency.value.value + bytes / rate};
}

/// Time over several nodes by rates and latencies.
Seconds network_time(OpKind kind, Bytes whole, NodeSpread spread, System const& system) {
  Network const& network = system.network;
  double const measured = measured_rate(kind, spread, system);
  double const rate = measured > 0 ? measured
                                   : spread.fewest() * network_share(system).value /
                                         border_slowdown(kind, spread, system);
  double const transfer = ring_bytes(kind, whole, spread.ranks) / rate;
  double const step = network.latency.value.value;
  double const start = cost_of(kind, system.node).latency.value;
  Seconds const ring{start + rounds_of(kind) * (spread.ranks - 1) * step + transfer};
  if (kind != OpKind::all_reduce) return ring;
  double const tree_bandwidth = measured > 0 ? 1 : 0.92;  // a measured rate may already be a tree's
  double const depth = std::ceil(std::log2(spread.nodes()));
  return Seconds{std::min(ring.value, start + 2 * depth * step + transfer / tree_bandwidth)};
}

Seconds modelled_time(OpKind kind, Bytes whole, NodeSpread spread, System const& system) {
  return spread.nodes() == 1 ? node_time(kind, whole, spread.ranks, system.node)
                             : network_time(kind, whole, spread, system);
}

/// The measured shape over several nodes with the same number of ranks on each: the one with the
/// largest number of nodes not above that of `spread`, else the one with the smallest.
CollectiveShape const* nearest_over_nodes(CollectiveTables const& tables,
                                          OpKind kind,
                                          NodeSpread spread) {
  CollectiveShape const* nearest = nullptr;
  for (auto const& [shape, points] : tables) {  // ascending in the number of nodes
    bool const is_alike =
        shape.kind == kind && shape.nodes > 1 && shape.per_node == spread.per_node;
    if (is_alike && (nearest == nullptr || shape.nodes <= spread.nodes())) nearest = &shape;
  }
  return nearest;
}

/// The time from measured tables; nullopt if they have no shape that is near enough.
std::optional<Seconds> measured_time(OpKind kind,
                                     Bytes whole,
                                     NodeSpread spread,
                                     System const& system) {
  bool const is_in_node = spread.nodes() == 1;
  bool const is_bus_given = system.node.bus_bandwidth.value.value > 0;
  if (is_in_node && kind == OpKind::all_reduce && is_bus_given) return std::nullopt;
  MeasuredCollectives const& measured_collectives =
      is_in_node ? system.node.collectives.value : system.network.collectives.value;
  if (!measured_collectives.tables) return std::nullopt;
  CollectiveTables const& tables = *measured_collectives.tables;
  if (is_in_node) {
    CollectiveShape const* const shape = nearest_in_node(tables, kind, spread.ranks);
    if (shape == nullptr) return std::nullopt;
    double const per_byte = ring_bytes(shape->kind, Bytes{1 << 20}, shape->ranks()) / (1 << 20);
    double const bytes = ring_bytes(kind, whole, spread.ranks) / per_byte;
    return Seconds{interpolate(tables.at(*shape), bytes)};
  }
  CollectiveShape const* const shape = nearest_over_nodes(tables, kind, spread);
  if (shape == nullptr) return std::nullopt;
  double const measured = interpolate(tables.at(*shape), static_cast<double>(whole.count()));
  NodeSpread const other{.ranks = shape->ranks(),
                         .per_node = shape->per_node,
                         .stride = spread.stride,
                         .abreast = spread.abreast};
  double const ours = modelled_time(kind, whole, spread, system).value;
  return Seconds{measured * ours / modelled_time(kind, whole, other, system).value};
}

}  // namespace

Seconds unique_all_to_all_time(Bytes sent,
                               ExchangeAttributes const& exchange,
                               NodeSpread spread,
                               System const& system) {
  if (spread.ranks == 1) return Seconds{0};
  auto const once = static_cast<double>(sent.count());
  double const nodes = spread.nodes();
  double const per_node = std::min(spread.ranks, spread.per_node);
  double const of_rank = distinct_parts(exchange.tokens, spread.ranks) * exchange.hottest;
  double const near = of_rank * (per_node - 1) / per_node * once;
  double const far = distinct_parts(exchange.tokens, spread.nodes()) * (nodes - 1) / nodes * once;
  return exchange_time(near, far, spread, system);
}

Seconds collective_time(OpKind kind, Bytes whole, NodeSpread spread, System const& system) {
  if (spread.ranks == 1) return Seconds{0};
  if (kind == OpKind::all_to_all) return all_to_all_time(whole, spread, system);
  if (kind == OpKind::ring_shift) return ring_shift_time(whole, spread, system);
  if (auto const measured = measured_time(kind, whole, spread, system)) return *measured;
  return modelled_time(kind, whole, spread, system);
}

}  // namespace stagecraft
