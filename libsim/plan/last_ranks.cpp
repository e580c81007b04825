#include "libsim/plan/last_ranks.hpp"

#include <algorithm>
#include <cstddef>

namespace stagecraft {
namespace {

/// An expert that has any rows has its weights read, and their gradients added to. That takes as
/// long as about 256 rows: a product of so many rows does as many FLOPs per byte of 16-bit weights,
/// which is between the 156 of an A100's peak per byte of its memory and the 295 of an H100's.
constexpr std::int64_t rows_of_weights = 256;

}  // namespace

std::int64_t load_of(std::vector<std::int64_t> const& by_expert) {
  std::int64_t sum = 0;
  for (std::int64_t const rows : by_expert) sum += rows > 0 ? rows + rows_of_weights : 0;
  return sum;
}

std::vector<int> find_last_ranks(
    TrainingPlan const& plan,
    std::function<std::int64_t(std::vector<int> const&)> const& load_of_set) {
  int const ranks = plan.groups.ranks_per_stage();
  std::vector<std::vector<int>> sets;
  std::vector<std::size_t> set_of(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    set_of[static_cast<std::size_t>(rank)] = sets.size();
    sets.push_back({rank});
  }
  auto const join = [&](GroupId id, int rank) {
    auto const group = plan.groups.membership(id, RankId{rank});
    if (!group) return;
    std::size_t const to = set_of[group->members.front().index()];
    std::size_t const from = set_of[static_cast<std::size_t>(rank)];
    if (to == from) return;
    for (int const other : sets[from]) {
      set_of[static_cast<std::size_t>(other)] = to;
      sets[to].push_back(other);
    }
    sets[from].clear();
  };
  for (int rank = 0; rank < ranks; ++rank) {
    // Passes wait for the groups whose collectives run between their layers.
    for (GroupId const id : plan.groups.ids()) {
      if (kind_of(plan.groups[id].stream) == StreamKind::layers) join(id, rank);
    }
  }
  std::erase_if(sets, [](std::vector<int> const& set) { return set.empty(); });
  for (std::vector<int>& set : sets) std::sort(set.begin(), set.end());
  if (sets.size() == 1) return sets.front();
  std::vector<int> const* last = nullptr;
  std::int64_t most = -1;
  for (std::vector<int> const& set : sets) {
    std::int64_t const sum = load_of_set(set);
    if (sum > most) last = &set;
    most = std::max(most, sum);
  }
  return *last;
}

}  // namespace stagecraft
