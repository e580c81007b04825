#include "libsim/ranks/unit_groups.hpp"

#include <algorithm>

namespace stagecraft {
namespace {

/// Whether so many ranks may share units while others hold copies.
bool is_part(ParallelLayout const& layout, int ranks) {
  int const replicas = layout.data * layout.context;
  return ranks > 1 && ranks < replicas && replicas % ranks == 0 && ranks % layout.context == 0;
}

}  // namespace

int unit_group_of_node(ParallelLayout const& layout, int node) {
  int const ranks = node / layout.tensor;
  return node % layout.tensor == 0 && is_part(layout, ranks) ? ranks : 0;
}

std::vector<int> unit_groups(ParallelLayout const& layout, int node) {
  std::vector<int> groups{0};
  for (int ranks = std::max(2, node / layout.tensor); ranks < layout.data * layout.context;
       ranks *= 2) {
    if (is_part(layout, ranks)) groups.push_back(ranks);
  }
  return groups;
}

}  // namespace stagecraft
