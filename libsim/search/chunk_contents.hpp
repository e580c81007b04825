#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/search/search_space.hpp"

namespace stagecraft {

/// The layers and ends of the model in a chunk. Chunks with equal contents have equal programs
/// under the same policy.
struct ChunkContent {
  std::int64_t first_layer = 0;  ///< number in the model
  std::int64_t layers = 0;
  bool has_embedding = false;
  bool has_head = false;
  bool shares_embedding = false;  ///< with has_head: its stage has an embedding
  bool keeps_output = false;      ///< the next chunk of the model is on the same stage
};

/// The chunks of a stage; equal chunks are stored once.
struct StageContent {
  std::vector<ChunkContent> distinct;
  std::vector<int> of_chunk;  ///< index into `distinct`, by chunk
};

/// The stages of an arrangement; equal stages are stored once.
class ArrangedStages {
 public:
  ArrangedStages(LayerKinds const& kinds, Arrangement const& arrangement);

  IdRange<StageId> stage_ids() const { return of_stage_.ids(); }
  /// Index of a stage into distinct(); equal stages have the same index.
  std::size_t number_of(StageId stage) const { return of_stage_[stage]; }
  StageContent const& operator[](StageId stage) const { return distinct_[number_of(stage)]; }
  std::vector<StageContent> const& distinct() const { return distinct_; }

 private:
  std::vector<StageContent> distinct_;
  IdVector<StageId, std::size_t> of_stage_;
};

}  // namespace stagecraft
