#pragma once

#include <cstddef>
#include <vector>

#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// The copies that recompute makes of a block's tensors.
class TensorCopies {
 public:
  explicit TensorCopies(std::size_t tensors) : copy_(tensors, no_tensor) {}

  bool has(TensorId id) const {
    auto const i = static_cast<std::size_t>(id);
    return i < copy_.size() && copy_[i] != no_tensor;
  }
  /// The copy of a tensor, or itself if it has none.
  TensorId of(TensorId id) const { return has(id) ? copy_[static_cast<std::size_t>(id)] : id; }
  void set(TensorId id, TensorId copy) { copy_[static_cast<std::size_t>(id)] = copy; }
  void apply(TensorList& ids) const {
    for (TensorId& id : ids) id = of(id);
  }

  /// Appends to `made` a copy of the op as recompute runs it. It uses copies of all buffers that it
  /// writes, and of the views of copied buffers.
  void append_copy(BlockProgram& block, Op const& op, std::vector<Op>& made);
  /// Copies each tensor that is a view of a copied buffer.
  void copy_views(BlockProgram& block, TensorList const& ids);

 private:
  TensorId make(BlockProgram& block, TensorId id) const;

  std::vector<TensorId> copy_;
};

}  // namespace stagecraft
