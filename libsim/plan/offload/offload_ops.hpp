#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/plan/training_plan.hpp"

/// What the blocks of layers get whose activations the host has: copies of buffers, ops that copy
/// or hold them, and blocks of their own for the layers at which these differ.
namespace stagecraft {

/// "saved_00" to "saved_99": the buffers that a layer leaves to another, by number.
/// \throws std::length_error  beyond.
std::string_view name_of_saved(std::size_t number);

/// Whether a buffer is an activation that a block keeps for its own backward.
bool may_leave(BlockProgram const& block, BufferLife const& life);

/// Takes out the waits and the lives of buffers, which insert_waits() and derive_liveness() bring
/// back.
void remove_waits(BlockProgram& block);

/// A tensor with a buffer of its own, in place of one that has left.
TensorId append_returned(BlockProgram& block, Tensor tensor);

/// Lets the ops of the backward at `readers` use what has left and come back, which is returned, in
/// place of `tensor`: a buffer with all its views, or a view that is copied by itself.
TensorId read_returned(BlockProgram& block, TensorId tensor, std::span<std::size_t const> readers);

/// Appends ops at which these buffers exist.
void append_hold(std::vector<Op>& ops, std::string_view name, std::span<TensorId const> buffers);

/// Appends a copy over the link to the host, beside the ops after it.
Op& append_link_copy(std::vector<Op>& ops, Stream stream, Bytes bytes);

/// Puts ops before all others.
void prepend(std::vector<Op>& ops, std::vector<Op> first);

/// The blocks of chunks of which layers have roles: one for each pair of a block and a role. The
/// blocks that there were stay as they are.
template <class Role>
class RoleBlocks {
 public:
  /// `programs` must outlive the object.
  explicit RoleBlocks(Programs& programs)
      : programs_{programs}, before_{std::exchange(programs.blocks, {})} {}

  std::vector<BlockProgram> const& before() const { return before_; }
  BlockProgram const& before(std::int32_t block) const {
    return before_[static_cast<std::size_t>(block)];
  }

  /// The blocks of the layers of a chunk.
  std::vector<std::int32_t> layers_of(ChunkProgram const& chunk) const {
    std::vector<std::int32_t> layers;
    for (std::int32_t const block : chunk.blocks) {
      if (before(block).kind == BlockProgram::Kind::layers) layers.push_back(block);
    }
    return layers;
  }

  /// Gives each layer the block of its role, which `write(block, role)` makes of the layer's.
  template <class Write>
  void assign(ChunkProgram& chunk, std::vector<Role> const& roles, Write write) {
    auto role = roles.begin();
    for (std::int32_t& block : chunk.blocks) {
      bool const is_layer = before(block).kind == BlockProgram::Kind::layers;
      Role const of_block = is_layer ? *role++ : Role{.block = block};
      auto const [place, is_new] =
          known_.try_emplace(of_block, static_cast<std::int32_t>(programs_.blocks.size()));
      if (is_new) {
        BlockProgram made = before(block);
        if (of_block != Role{.block = block}) write(made, of_block);
        programs_.blocks.push_back(std::move(made));
      }
      block = place->second;
    }
  }

 private:
  Programs& programs_;
  std::vector<BlockProgram> before_;
  std::map<Role, std::int32_t> known_;
};

}  // namespace stagecraft
