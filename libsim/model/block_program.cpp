#include "libsim/model/block_program.hpp"

#include <cmath>

namespace stagecraft {

std::int64_t BlockShape::padded_vocabulary() const {
  std::int64_t const multiple = model.vocabulary_multiple * tensor;
  return (model.vocabulary + multiple - 1) / multiple * multiple;
}

std::int64_t BlockShape::expert_rows() const {
  auto const choices = static_cast<double>(tokens() * model.experts->per_token);
  auto const experts = static_cast<double>(model.experts->count);
  return static_cast<std::int64_t>(std::ceil(choices / experts * capacity));
}

std::int64_t BlockShape::sent_rows() const {
  return capacity == 0 ? tokens() * model.experts->per_token : expert_rows() * model.experts->count;
}

std::int64_t BlockShape::received_rows() const {
  if (hottest == 1) return sent_rows();
  auto const balanced = static_cast<double>(sent_rows()) / static_cast<double>(local_experts());
  return static_cast<std::int64_t>(std::ceil(balanced * hottest)) * local_experts();
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
