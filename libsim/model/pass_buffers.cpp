#include "libsim/model/pass_buffers.hpp"

namespace stagecraft {

PassBuffers::PassBuffers(BlockProgram const& block, Pass pass)
    : before_(block.ops(pass).size()), after_(block.ops(pass).size()) {
  for (BufferLife const& life : block.lives) {
    if (life.allocate_pass == pass && life.allocate >= 0) {
      before_[static_cast<std::size_t>(life.allocate)].push_back(life.buffer);
    }
    if (life.release_pass == pass && life.release >= 0) {
      after_[static_cast<std::size_t>(life.release)].push_back(life.buffer);
    }
  }
}

}  // namespace stagecraft
