#include "libsim/export/astra_sim_machine.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "libsim/cost/collective_time.hpp"
#include "libsim/cost/oversubscription.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {
namespace {

/// One dimension of the network.
struct Dimension {
  int members = 1;
  double bandwidth = 0;  ///< bytes per second
  double latency = 0;    ///< s, per step of a ring
};

Dimension inside_a_node(System const& system, int members) {
  constexpr Bytes small{std::int64_t{64} << 20};
  constexpr Bytes large{std::int64_t{256} << 20};
  NodeSpread const spread{.ranks = members, .per_node = members};
  auto const time = [&](Bytes whole) {
    return collective_time(OpKind::all_gather, whole, spread, system).value;
  };
  auto const bytes = [&](Bytes whole) { return ring_bytes(OpKind::all_gather, whole, members); };
  double const bandwidth = (bytes(large) - bytes(small)) / (time(large) - time(small));
  double const rest = time(small) - bytes(small) / bandwidth;
  return {members, bandwidth, std::max(0.0, rest / (members - 1))};
}

std::vector<Dimension> dimensions_of(System const& system, int ranks) {
  int const node = system.node.accelerators.value;
  NodeSpread const all{.ranks = ranks, .per_node = std::min(ranks, node)};
  double const share =
      network_share(system).value / border_slowdown(OpKind::all_reduce, all, system);
  Dimension const between{1, share, system.network.latency.value.value};
  std::vector<Dimension> dimensions;
  // A dimension has the same size everywhere: a node that is not full is not one.
  int const inside = ranks <= node ? ranks : (ranks % node == 0 ? node : 1);
  if (inside > 1) dimensions.push_back(inside_a_node(system, inside));
  if (ranks > inside || dimensions.empty()) {
    dimensions.push_back(between);
    dimensions.back().members = ranks / inside;
  }
  return dimensions;
}

template <typename Text>
std::string list(std::vector<Dimension> const& dimensions, Text const& text) {
  std::string items;
  for (Dimension const& one : dimensions) items += (items.empty() ? "" : ", ") + text(one);
  return "[ " + items + " ]";
}

}  // namespace

std::string astra_sim_network(System const& system, int ranks) {
  constexpr double gibibyte = 1 << 30;
  auto const dimensions = dimensions_of(system, ranks);
  return "# " + system.name + ": a node, and what connects nodes\n" + "topology: " +
         list(dimensions, [](Dimension const&) { return std::string{"FullyConnected"}; }) +
         "\nnpus_count: " +
         list(dimensions, [](Dimension const& one) { return std::to_string(one.members); }) +
         "\nbandwidth: " +
         list(dimensions,
              [&](Dimension const& one) { return decimals(one.bandwidth / gibibyte, 3); }) +
         "  # GiB/s\nlatency: " +
         list(dimensions, [](Dimension const& one) { return decimals(one.latency * 1e9, 1); }) +
         "  # ns\n";
}

std::string astra_sim_system(System const& system, int ranks) {
  std::vector<std::string> const rings(dimensions_of(system, ranks).size(), "ring");
  nlohmann::ordered_json const json{
      {"scheduling-policy", "FIFO"},
      {"endpoint-delay", 1},
      {"active-chunks-per-dimension", 1},
      {"preferred-dataset-splits", 1},
      {"all-reduce-implementation", rings},
      {"all-gather-implementation", rings},
      {"reduce-scatter-implementation", rings},
      {"all-to-all-implementation", rings},
      {"collective-optimization", "baseline"},
      {"local-mem-bw", system.accelerator.bandwidth.value.value / 1e9},
      {"boost-mode", 0}};
  return json.dump(1) + "\n";
}

}  // namespace stagecraft
