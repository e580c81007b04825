#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/units/enum_names.hpp"
#include "libsim/units/ids.hpp"

namespace stagecraft {

/// How the chunks of a model lie on the stages; make_placement() in placement.hpp makes each.
enum class PlacementShape : std::uint8_t {
  loop,           ///< chunk by chunk over all stages
  v,              ///< two chunks per stage, there and back
  bidirectional,  ///< two copies of the model in opposite directions
};

template <>
struct EnumNames<PlacementShape> {
  static constexpr std::array<std::pair<PlacementShape, std::string_view>, 3> all{
      {{PlacementShape::loop, "loop"},
       {PlacementShape::v, "v"},
       {PlacementShape::bidirectional, "bidirectional"}}};
};

/// A chunk of a stage.
struct ChunkPlace {
  StageId stage{};
  ChunkId chunk{};

  friend bool operator==(ChunkPlace const&, ChunkPlace const&) = default;
};

/// The chunk and stage of each virtual stage. The virtual stages are the parts of the model in the
/// order in which a microbatch passes through them. A placement may hold several copies of the
/// model, whose virtual stages follow each other.
class Placement {
 public:
  Placement() : Placement{1, {{StageId{0}, ChunkId{0}}}} {}
  /// `places` is indexed by virtual stage. Pre: every chunk of every stage occurs once, and the
  /// number of copies divides the number of virtual stages.
  Placement(int stages, std::vector<ChunkPlace> places, int copies = 1);

  int stages() const { return stages_; }
  IdRange<StageId> stage_ids() const { return IdRange<StageId>{stages_}; }
  int chunks() const { return chunks_; }  ///< chunks per stage
  IdRange<ChunkId> chunk_ids() const { return IdRange<ChunkId>{chunks_}; }
  int virtual_stages() const { return static_cast<int>(places_.size()); }
  IdRange<VirtualStageId> virtual_stage_ids() const { return places_.ids(); }
  VirtualStageId last() const { return VirtualStageId{virtual_stages() - 1}; }
  int copies() const { return virtual_stages() / per_copy_; }  ///< copies of the model

  ChunkPlace place(VirtualStageId virtual_stage) const { return places_[virtual_stage]; }
  VirtualStageId virtual_stage(ChunkPlace const& place) const {
    return virtual_stages_[index_of(place)];
  }
  /// The number of parts that the model is cut into: the virtual stages of a copy.
  int parts() const { return per_copy_; }
  /// The copy of the model that the virtual stage belongs to.
  int copy_of(VirtualStageId virtual_stage) const { return virtual_stage.value() / per_copy_; }
  /// Which part of the model the virtual stage is, from 0; each copy has every part.
  int part_of(VirtualStageId virtual_stage) const { return virtual_stage.value() % per_copy_; }
  /// Whether the virtual stage is the first, or the last, of its copy of the model.
  bool is_first(VirtualStageId virtual_stage) const {
    return virtual_stage.value() % per_copy_ == 0;
  }
  bool is_last(VirtualStageId virtual_stage) const { return is_first(next(virtual_stage)); }

  friend bool operator==(Placement const&, Placement const&) = default;

 private:
  std::size_t index_of(ChunkPlace const& place) const {
    return place.chunk.index() * static_cast<std::size_t>(stages_) + place.stage.index();
  }

  int stages_;
  int chunks_;
  int per_copy_;
  IdVector<VirtualStageId, ChunkPlace> places_;
  std::vector<VirtualStageId> virtual_stages_;  ///< by chunk and stage
};

enum class Neighbour : std::uint8_t { next, previous };

/// The neighbour of a chunk in its copy of the model, as a chunk of the same stage; nullopt if
/// another stage has it, or if there is none.
std::optional<ChunkId> neighbour_here(Placement const& placement,
                                      ChunkPlace const& place,
                                      Neighbour neighbour);

/// Whether another stage has that neighbour, so that the two stages exchange messages.
bool is_neighbour_elsewhere(Placement const& placement,
                            ChunkPlace const& place,
                            Neighbour neighbour);

/// Whether a stage has the first chunk of some copy of the model.
bool begins_model(Placement const& placement, StageId stage);

/// Round-robin, as Megatron-LM places virtual stages: the first chunk of each stage, then the
/// second chunk of each, and so on.
Placement round_placement(int stages, int chunks);

/// Two chunks per stage, there and back: the first chunk of each stage, then the second chunk of
/// each from the last stage to the first. Stage 0 has the first and the last virtual stage.
/// Source: Qi et al. 2024, arXiv:2405.15362 (ZB-V).
Placement v_placement(int stages);

/// Two copies of the model in opposite directions: chunk 0 of stage r is the r-th part of the first
/// copy, chunk 1 the (p-1-r)-th part of the second.
/// Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (DualPipe).
Placement bidirectional_placement(int stages);

/// The placement of a shape. `chunks` is the number of chunks per stage in a loop; the other shapes
/// have two.
Placement make_placement(PlacementShape shape, int stages, int chunks);

/// The shape of a placement that one of the functions above made.
PlacementShape shape_of(Placement const& placement);

}  // namespace stagecraft
