#include "libsim/program/tensor_copies.hpp"

namespace stagecraft {

void TensorCopies::append_copy(BlockProgram& block, Op const& op, std::vector<Op>& made) {
  Op& copy = made.emplace_back(op);
  copy.phase = Phase::recompute;
  for (TensorId const id : op.writes) {
    TensorId const buffer = block.tensor(id).buffer;
    if (!has(buffer)) set(buffer, make(block, buffer));
  }
  copy_views(block, op.reads);
  copy_views(block, op.writes);
  apply(copy.reads);
  apply(copy.writes);
}

void TensorCopies::copy_views(BlockProgram& block, TensorList const& ids) {
  for (TensorId const id : ids) {
    TensorId const buffer = block.tensor(id).buffer;
    if (buffer != id && !has(id) && has(buffer)) set(id, make(block, id));
  }
}

TensorId TensorCopies::make(BlockProgram& block, TensorId id) const {
  Tensor copy = block.tensor(id);
  copy.rebuilt = true;
  if (copy.category == Category::activations) copy.category = Category::recomputed;
  auto const made = static_cast<TensorId>(block.tensors.size());
  copy.buffer = copy.buffer == id ? made : of(copy.buffer);
  block.tensors.push_back(copy);
  return made;
}

}  // namespace stagecraft
