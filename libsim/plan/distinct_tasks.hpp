#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {

/// For each chunk program, the first one with the same blocks and the same use of its
/// output.
std::vector<std::int32_t> first_with_same_blocks(std::vector<ChunkProgram> const& chunks);

/// Keeps one value per distinct task of a plan. Most stages run the same chunks, so the value of a
/// pass through a whole chunk is computed once for all of them.
template <class Value>
class DistinctTasks {
 public:
  /// `programs` must outlive the object.
  explicit DistinctTasks(Programs const& programs)
      : programs_{programs},
        same_as_{first_with_same_blocks(programs.chunks)},
        whole_(programs.chunks.size()) {}

  /// Returns the value of a task and calls make() if it is not known yet. The reference is valid as
  /// long as this object.
  template <class Make>
  Value const& of(Task const& task, Make make) {
    if (task.kind == Task::Kind::step) return made_.emplace_back(make());
    auto const program = static_cast<std::size_t>(task.program);
    auto const all = static_cast<std::int32_t>(programs_.chunks[program].blocks.size());
    if (task.block_count != all || task.beside >= 0) return made_.emplace_back(make());
    std::size_t const pass = index_of(pass_of(task));
    Value const*& known = whole_[static_cast<std::size_t>(same_as_[program])][pass];
    if (known == nullptr) known = &made_.emplace_back(make());
    return *known;
  }

 private:
  Programs const& programs_;
  std::deque<Value> made_;             ///< a deque, so that references stay valid
  std::vector<std::int32_t> same_as_;  ///< first_with_same_blocks()
  std::vector<std::array<Value const*, pass_count>> whole_;  ///< by chunk program and pass
};

}  // namespace stagecraft
