#include "libsim/search/chunk_contents.hpp"

#include <algorithm>

namespace stagecraft {
namespace {

bool are_equal(LayerKinds const& kinds, ChunkContent const& a, ChunkContent const& b) {
  if (a.layers != b.layers || a.has_embedding != b.has_embedding || a.has_head != b.has_head) {
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
  int const chunks = arrangement.schedule.interleave;
  std::int64_t const all = arrangement.shares.sum(stages);
  StageContent content;
  std::int64_t before = 0;  // layers of the stages before
  for (StageId const stage : IdRange<StageId>{stages}) {
    std::int64_t const layers = arrangement.shares.of(stage, stages) / chunks;
    content.distinct.clear();
    content.of_chunk.clear();
    for (int chunk = 0; chunk < chunks; ++chunk) {
      ChunkContent const made{.first_layer = chunk * (all / chunks) + before,
                              .layers = layers,
                              .has_embedding = stage == StageId{0} && chunk == 0,
                              .has_head = next(stage) == StageId{stages} && chunk + 1 == chunks};
      content.of_chunk.push_back(static_cast<int>(place_of(kinds, content.distinct, made)));
    }
    before += layers;
    of_stage_.push_back(place_of(kinds, distinct_, content));
  }
}

}  // namespace stagecraft
