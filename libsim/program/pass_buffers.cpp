#include "libsim/program/pass_buffers.hpp"

#include <numeric>

namespace stagecraft {

PassBuffers::PassBuffers(BlockProgram const& block, Pass pass)
    : begin_(2 * block.ops(pass).size() + 1) {
  // A counting sort: first the number of moves at each place, then where its moves begin.
  auto const visit = [&](auto take) {
    for (BufferLife const& life : block.lives_in(pass)) {
      if (life.allocate_pass == pass && life.allocate >= 0) take(life.buffer, life.allocate, true);
      if (life.release_pass == pass && life.release >= 0) take(life.buffer, life.release, false);
    }
  };
  auto const place_of = [](std::int32_t op, bool allocates) {
    return 2 * static_cast<std::size_t>(op) + (allocates ? 0 : 1);
  };
  visit([&](TensorId, std::int32_t op, bool allocates) { ++begin_[place_of(op, allocates)]; });
  std::exclusive_scan(begin_.begin(), begin_.end(), begin_.begin(), std::size_t{0});
  moves_.resize(begin_.back());
  std::vector<std::size_t> next = begin_;
  visit([&](TensorId buffer, std::int32_t op, bool allocates) {
    Tensor const& tensor = block.tensor(buffer);
    moves_[next[place_of(op, allocates)]++] = {.buffer = buffer,
                                               .op = op,
                                               .allocates = allocates,
                                               .category = tensor.category,
                                               .bytes = tensor.bytes().count()};
  });
}

}  // namespace stagecraft
