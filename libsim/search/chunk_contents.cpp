#include "libsim/search/chunk_contents.hpp"

#include <algorithm>

namespace stagecraft {
namespace {

bool are_equal(LayerKinds const& kinds, ChunkContent const& a, ChunkContent const& b) {
  if (a.layers != b.layers || a.has_embedding != b.has_embedding || a.has_head != b.has_head ||
      a.shares_embedding != b.shares_embedding || a.keeps_output != b.keeps_output) {
    return false;
  }
  if (kinds.are_alike()) return true;
  return std::ranges::equal(kinds.of_layers(a.first_layer, a.layers),
                            kinds.of_layers(b.first_layer, b.layers));
}

bool are_equal(LayerKinds const& kinds, StageContent const& a, StageContent const& b) {
  return a.of_chunk == b.of_chunk &&
         std::ranges::equal(
             a.distinct, b.distinct,
             [&](ChunkContent const& x, ChunkContent const& y) { return are_equal(kinds, x, y); });
}

/// Returns the index of an equal content; appends it if there is none.
template <typename Content>
std::size_t place_of(LayerKinds const& kinds,
                     std::vector<Content>& distinct,
                     Content const& content) {
  auto const known = std::find_if(distinct.begin(), distinct.end(), [&](Content const& other) {
    return are_equal(kinds, other, content);
  });
  auto const place = static_cast<std::size_t>(known - distinct.begin());
  if (known == distinct.end()) distinct.push_back(content);
  return place;
}

}  // namespace

ArrangedStages::ArrangedStages(LayerKinds const& kinds, Arrangement const& arrangement) {
  int const stages = arrangement.schedule.pipeline;
  Placement const placement = placement_of(arrangement.schedule);
  std::vector<std::int64_t> layers;  // of each part of the model
  std::vector<std::int64_t> before;
  for (VirtualStageId const part : IdRange<VirtualStageId>{placement.parts()}) {
    before.push_back(layers.empty() ? 0 : before.back() + layers.back());
    layers.push_back(arrangement.shares.of(placement.place(part).stage, stages) /
                     arrangement.schedule.cuts());
  }
  StageContent content;
  for (StageId const stage : placement.stage_ids()) {
    content.distinct.clear();
    content.of_chunk.clear();
    for (ChunkId const chunk : placement.chunk_ids()) {
      VirtualStageId const v = placement.virtual_stage({stage, chunk});
      auto const part = static_cast<std::size_t>(placement.part_of(v));
      bool const has_head = placement.is_last(v);
      ChunkContent const made{
          .first_layer = before[part],
          .layers = layers[part],
          .has_embedding = placement.is_first(v),
          .has_head = has_head,
          .shares_embedding = has_head && begins_model(placement, stage),
          .keeps_output = neighbour_here(placement, {stage, chunk}, Neighbour::next).has_value()};
      content.of_chunk.push_back(static_cast<int>(place_of(kinds, content.distinct, made)));
    }
    of_stage_.push_back(place_of(kinds, distinct_, content));
  }
}

}  // namespace stagecraft
