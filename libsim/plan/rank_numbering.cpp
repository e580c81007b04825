#include "libsim/plan/rank_numbering.hpp"

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {
namespace {

/// `count` ranks from `first` on, `stride` apart.
std::vector<int> ranks_from(int first, int count, int stride) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

}  // namespace

RankPlace place_of(ParallelLayout const& layout, int rank) {
  return {.tensor = rank % layout.tensor,
          .data = rank / layout.tensor % layout.data,
          .pipeline = rank / (layout.tensor * layout.data)};
}

int rank_of(ParallelLayout const& layout, RankPlace const& place) {
  return (place.pipeline * layout.data + place.data) * layout.tensor + place.tensor;
}

std::vector<int> group_members(TrainingConfig const& config, CollectiveGroup group, int rank) {
  ParallelLayout const& layout = config.parallel;
  RankPlace const here = place_of(layout, rank);
  int const of_stage = layout.tensor * layout.data;
  switch (group) {
    case CollectiveGroup::tensor:
      return ranks_from(rank - here.tensor, layout.tensor, 1);
    case CollectiveGroup::kv_replicas: {
      int const replicas = block_shape(config).kv_replicas();
      return ranks_from(rank - here.tensor % replicas, replicas, 1);
    }
    case CollectiveGroup::data:
      return ranks_from(rank - here.data * layout.tensor, layout.data, layout.tensor);
    case CollectiveGroup::embedding:
      return ranks_from(rank % of_stage, 2, of_stage * (layout.pipeline - 1));
    case CollectiveGroup::model: {
      std::vector<int> ranks;
      for (int stage = 0; stage < layout.pipeline; ++stage) {
        for (int tensor = 0; tensor < layout.tensor; ++tensor) {
          ranks.push_back(rank_of(layout, {tensor, here.data, stage}));
        }
      }
      return ranks;
    }
    case CollectiveGroup::job:
      return ranks_from(0, world_size(layout), 1);
  }
  return {};
}

}  // namespace stagecraft
