#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "libsim/program/category.hpp"

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
  /// The bytes of all categories of the kind activation.
  std::int64_t activation_sum() const {
    std::int64_t total = 0;
    for (CategoryRow const& row : categories) {
      if (row.kind == CategoryKind::activation) total += (*this)[row.category];
    }
    return total;
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

/// The categories that a table has columns for, given the sum of its rows: those of units only if
/// there are any.
inline std::vector<CategoryRow> category_columns(CategoryBytes const& sum) {
  std::vector<CategoryRow> rows;
  std::ranges::copy_if(categories, std::back_inserter(rows), [&](CategoryRow const& row) {
    return row.kind != CategoryKind::units || sum[row.category] != 0;
  });
  return rows;
}

}  // namespace stagecraft
