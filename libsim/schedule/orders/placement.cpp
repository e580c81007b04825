#include "libsim/schedule/orders/placement.hpp"

#include <utility>

namespace stagecraft {

Placement::Placement(int stages, std::vector<ChunkPlace> places, int copies)
    : stages_{stages},
      chunks_{static_cast<int>(places.size()) / stages},
      per_copy_{static_cast<int>(places.size()) / copies},
      places_{std::move(places)},
      virtual_stages_(places_.size()) {
  for (VirtualStageId const v : virtual_stage_ids()) virtual_stages_[index_of(place(v))] = v;
}

namespace {

/// nullopt at the end of the model.
std::optional<ChunkPlace> place_of_neighbour(Placement const& placement,
                                             ChunkPlace const& place,
                                             Neighbour neighbour) {
  VirtualStageId const here = placement.virtual_stage(place);
  bool const is_next = neighbour == Neighbour::next;
  if (is_next ? placement.is_last(here) : placement.is_first(here)) return std::nullopt;
  return placement.place(is_next ? next(here) : previous(here));
}

}  // namespace

std::optional<ChunkId> neighbour_here(Placement const& placement,
                                      ChunkPlace const& place,
                                      Neighbour neighbour) {
  auto const other = place_of_neighbour(placement, place, neighbour);
  if (!other || other->stage != place.stage) return std::nullopt;
  return other->chunk;
}

bool is_neighbour_elsewhere(Placement const& placement,
                            ChunkPlace const& place,
                            Neighbour neighbour) {
  auto const other = place_of_neighbour(placement, place, neighbour);
  return other && other->stage != place.stage;
}

bool begins_model(Placement const& placement, StageId stage) {
  for (int copy = 0; copy < placement.copies(); ++copy) {
    if (placement.place(VirtualStageId{copy * placement.parts()}).stage == stage) return true;
  }
  return false;
}

Placement round_placement(int stages, int chunks) {
  std::vector<ChunkPlace> places;
  places.reserve(static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks));
  for (ChunkId const chunk : IdRange<ChunkId>{chunks}) {
    for (StageId const stage : IdRange<StageId>{stages}) places.push_back({stage, chunk});
  }
  return Placement{stages, std::move(places)};
}

Placement v_placement(int stages) {
  std::vector<ChunkPlace> places;
  places.reserve(2 * static_cast<std::size_t>(stages));
  for (StageId const stage : IdRange<StageId>{stages}) places.push_back({stage, ChunkId{0}});
  for (int stage = stages - 1; stage >= 0; --stage) places.push_back({StageId{stage}, ChunkId{1}});
  return Placement{stages, std::move(places)};
}

Placement bidirectional_placement(int stages) {
  Placement const there_and_back = v_placement(stages);
  std::vector<ChunkPlace> places;
  places.reserve(2 * static_cast<std::size_t>(stages));
  for (VirtualStageId const v : there_and_back.virtual_stage_ids()) {
    places.push_back(there_and_back.place(v));
  }
  return Placement{stages, std::move(places), 2};
}

Placement make_placement(PlacementShape shape, int stages, int chunks) {
  switch (shape) {
    case PlacementShape::v:
      return v_placement(stages);
    case PlacementShape::bidirectional:
      return bidirectional_placement(stages);
    case PlacementShape::loop:
      break;
  }
  return round_placement(stages, chunks);
}

PlacementShape shape_of(Placement const& placement) {
  if (placement.copies() > 1) return PlacementShape::bidirectional;
  // A V ends where it begins; a loop of several chunks on one stage does so too, and is the same.
  bool const is_v = placement.chunks() == 2 && placement == v_placement(placement.stages());
  return is_v ? PlacementShape::v : PlacementShape::loop;
}

}  // namespace stagecraft
