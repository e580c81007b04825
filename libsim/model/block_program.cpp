#include "libsim/model/block_program.hpp"

namespace stagecraft {

std::int64_t BlockShape::padded_vocabulary() const {
  std::int64_t const multiple = model.vocabulary_multiple * tensor;
  return (model.vocabulary + multiple - 1) / multiple * multiple;
}

BlockShape BlockShape::with(LayerConfig const& kind) const {
  BlockShape changed = *this;
  static_cast<LayerConfig&>(changed.model) = kind;
  changed.model.pattern.clear();
  return changed;
}

Bytes saved_bytes(BlockProgram const& block) {
  Bytes sum;
  for (BufferLife const& life : block.lives) {
    if (life.is_saved()) sum += block.tensor(life.buffer).bytes();
  }
  return sum;
}

Bytes bytes_until_weight_gradient(BlockProgram const& block) {
  Bytes sum;
  for (BufferLife const& life : block.split_lives) {
    if (life.release_pass == Pass::weight_gradient && life.allocate_pass != Pass::weight_gradient) {
      sum += block.tensor(life.buffer).bytes();
    }
  }
  return sum;
}

}  // namespace stagecraft
