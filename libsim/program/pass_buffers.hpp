#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libsim/program/block_program.hpp"

namespace stagecraft {

/// A buffer of a block that is allocated or released at an op of a pass.
struct BufferMove {
  TensorId buffer = no_tensor;
  std::int32_t op = 0;  ///< its position in the pass
  /// The buffer is allocated just before the op; otherwise it is released right after the op.
  bool allocates = false;
  Category category = Category::activations;
  std::int64_t bytes = 0;
};

/// The allocations and releases in a pass of a block, in issue order. Everything that follows
/// memory reads BufferLife entries through this class. It leaves out what a neighbouring block
/// allocates or releases.
class PassBuffers {
 public:
  PassBuffers(BlockProgram const& block, Pass pass);

  std::span<BufferMove const> all() const& { return moves_; }
  std::span<BufferMove const> all() const&& = delete;  // the span would dangle
  /// The allocations before the op at `position`, and the releases after it.
  std::span<BufferMove const> before(std::size_t position) const { return range(2 * position); }
  std::span<BufferMove const> after(std::size_t position) const { return range(2 * position + 1); }

 private:
  std::span<BufferMove const> range(std::size_t place) const {
    return std::span{moves_}.subspan(begin_[place], begin_[place + 1] - begin_[place]);
  }

  std::vector<BufferMove> moves_;
  std::vector<std::size_t>
      begin_;  ///< first move before and first move after each op, then the end
};

/// All passes of a block.
class BlockBuffers {
 public:
  explicit BlockBuffers(BlockProgram const& block)
      : passes_{PassBuffers{block, Pass::forward}, PassBuffers{block, Pass::backward},
                PassBuffers{block, Pass::input_gradient}, PassBuffers{block, Pass::weight_gradient},
                PassBuffers{block, Pass::recompute}} {}
  PassBuffers const& of(Pass pass) const { return passes_[index_of(pass)]; }

 private:
  std::array<PassBuffers, pass_count> passes_;
};

}  // namespace stagecraft
