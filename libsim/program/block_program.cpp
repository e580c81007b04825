#include "libsim/program/block_program.hpp"

#include <algorithm>
#include <cmath>

namespace stagecraft {

std::int64_t BlockShape::padded_vocabulary() const {
  std::int64_t const multiple = model.vocabulary_multiple * tensor;
  return (model.vocabulary + multiple - 1) / multiple * multiple;
}

std::int64_t BlockShape::expert_rows() const {
  std::int64_t const counted = is_of_microbatch ? model.sequence * micro : tokens();
  auto const choices = static_cast<double>(counted * model.experts->per_token);
  auto const experts = static_cast<double>(model.experts->count);
  return static_cast<std::int64_t>(std::ceil(choices / experts * capacity));
}

std::int64_t BlockShape::sent_rows() const {
  std::int64_t const choices = tokens() * model.experts->per_token;
  if (capacity == 0) return choices;
  std::int64_t const taken = std::min(expert_rows(), tokens()) * model.experts->count;
  return pads_experts ? taken : std::min(taken, choices);
}

std::int64_t BlockShape::received_rows() const { return is_uneven() ? room : sent_rows(); }

std::int64_t BlockShape::computed_rows() const {
  return is_uneven() ? computed_room : received_rows() * expert_tensor;
}

std::int64_t BlockShape::expected_rows() const {
  if (forced != nullptr) return received_rows();
  std::int64_t sent = sent_rows();
  if (gathers_choices()) {
    // The rank's part of what the experts take of the microbatch.
    std::int64_t const taken = expert_rows() * model.experts->count;
    sent = std::min(sent, (taken + token_ranks() - 1) / token_ranks());
  }
  return std::min(received_rows(), sent);
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

}  // namespace stagecraft
