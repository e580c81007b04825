#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "libsim/model/block_program.hpp"

namespace stagecraft {

/// Bytes by category, indexed by Category.
class CategoryBytes {
 public:
  std::int64_t& operator[](Category category) { return bytes_[static_cast<std::size_t>(category)]; }
  std::int64_t operator[](Category category) const {
    return bytes_[static_cast<std::size_t>(category)];
  }
  std::int64_t sum() const {
    std::int64_t total = 0;
    for (std::int64_t const bytes : bytes_) total += bytes;
    return total;
  }
  /// activations + recomputed + communication.
  std::int64_t activation_sum() const {
    return (*this)[Category::activations] + (*this)[Category::recomputed] +
           (*this)[Category::communication];
  }
  CategoryBytes& operator+=(CategoryBytes const& other) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] += other.bytes_[i];
    return *this;
  }
  friend CategoryBytes operator+(CategoryBytes a, CategoryBytes const& b) { return a += b; }
  friend bool operator==(CategoryBytes const&, CategoryBytes const&) = default;

 private:
  std::array<std::int64_t, category_count> bytes_{};
};

/// How memory moves, in issue order, while a piece of a plan runs; relative to its start.
struct MemoryProfile {
  CategoryBytes net;                 ///< at the end
  CategoryBytes at_peak;             ///< at the first instant where the sum is largest
  std::int64_t peak = 0;             ///< that sum; 0 where it never rises above the start
  std::int64_t activation_peak = 0;  ///< largest activation_sum
  std::int32_t peak_op = -1;         ///< op whose buffers made the peak; -1: the start

  /// Continues with `next`, whose op positions are not kept (peak_op becomes -1).
  void append(MemoryProfile const& next);
};

/// What the ops of one pass change, by op.
struct MemoryChanges {
  std::vector<CategoryBytes> before;  ///< allocated just before an op
  std::vector<CategoryBytes> after;   ///< released right after it, negative
};

MemoryChanges memory_changes(BlockProgram const& block, Pass pass);

/// Walks the buffers of one pass: allocated before their op, released after theirs.
MemoryProfile profile_memory(BlockProgram const& block, Pass pass);

}  // namespace stagecraft
