#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libsim/model/block_program.hpp"

namespace stagecraft {

/// The buffers that come and go with each op of a block's pass, from its BufferLife entries.
class PassBuffers {
 public:
  PassBuffers(BlockProgram const& block, Pass pass);

  /// To be allocated just before the op at `position`; to be released right after it.
  std::span<TensorId const> before(std::size_t position) const { return before_.at(position); }
  std::span<TensorId const> after(std::size_t position) const { return after_.at(position); }

 private:
  std::vector<std::vector<TensorId>> before_;
  std::vector<std::vector<TensorId>> after_;
};

/// Both passes of a block.
struct BlockBuffers {
  PassBuffers forward;
  PassBuffers backward;

  explicit BlockBuffers(BlockProgram const& block)
      : forward{block, Pass::forward}, backward{block, Pass::backward} {}
  PassBuffers const& of(Pass pass) const { return pass == Pass::forward ? forward : backward; }
};

}  // namespace stagecraft
