#pragma once

#include <cstddef>
#include <cstdint>

#include "libexec/kernels/low_formats.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libexec/kernels/scale_arithmetic.hpp"

namespace stagecraft {

/// A quantised operand: a matrix of elements, row by row, and behind them the scales of each of its
/// segments. A segment has a matrix of scales, one per block, in the order of the axis across those
/// that products sum over; padding; and with `nvfp4` the scale of the whole segment.
///
/// A copy by columns has its elements in the order of the tensor, not transposed: the CPU's
/// products read both orders.
class QuantisedMatrix {
 public:
  /// Expects a contiguous quantised operand whose scales take as many bytes as its layout has.
  QuantisedMatrix(KernelCall const& call, Operand const& operand);

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  ElementType type() const { return type_; }
  Recipe recipe() const { return recipe_; }
  std::int64_t segments() const { return segments_; }
  std::int64_t rows_of_segment() const { return rows_of_segment_; }
  /// Rows and columns of a block; those at the end of a segment may have fewer.
  std::int64_t block_rows() const { return block_rows_; }
  std::int64_t block_columns() const { return block_columns_; }
  bool has_one_scale() const { return has_one_scale_; }
  bool has_tensor_scale() const { return has_tensor_scale_; }
  /// Rows, and columns, of the blocks whose largest element makes a scale: more than those of a
  /// block if all blocks of a square have the same scale.
  std::int64_t measured_rows() const { return measured_rows_; }
  std::int64_t measured_columns() const { return measured_columns_; }

  std::uint8_t* elements() const { return elements_; }
  /// Keeps the scale of the block that has this row and column.
  void set_scale(std::int64_t row, std::int64_t column, BlockScale const& scale) const;
  void set_tensor_scale(std::int64_t segment, float decode) const;
  /// Sets all scales to zero, padding included.
  void clear_scales() const;
  /// Sets elements [first, first + n) of a row. `code(i)`: that of column i. Pre: `first` and n are
  /// even if two elements share a byte, unless n is 1.
  template <typename Code>
  void set_row(std::int64_t row, std::int64_t first, std::int64_t n, Code const& code) const;

  /// Writes the numbers of columns [first, first + n) of a row to `to`.
  void read(std::int64_t row, std::int64_t first, std::int64_t n, float* to) const;

 private:
  /// The number by which elements of a block are multiplied.
  float scale_of(std::int64_t row, std::int64_t column) const;
  std::byte* scale_at(std::int64_t row, std::int64_t column) const;
  std::byte* tensor_scale_at(std::int64_t segment) const;

  std::uint8_t* elements_ = nullptr;
  std::byte* scales_ = nullptr;
  ElementType type_ = ElementType::f8_e4m3;
  ElementType scale_type_ = ElementType::f32;
  Recipe recipe_ = Recipe::none;
  bool has_one_scale_ = false;  ///< per segment
  bool has_tensor_scale_ = false;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::int64_t segments_ = 1;
  std::int64_t rows_of_segment_ = 0;
  std::int64_t block_rows_ = 0;
  std::int64_t block_columns_ = 0;
  std::int64_t measured_rows_ = 0;
  std::int64_t measured_columns_ = 0;
  std::int64_t row_step_ = 0;     ///< scales from a block to the one below it
  std::int64_t column_step_ = 0;  ///< and to the one beside it
  std::int64_t segment_bytes_ = 0;
  std::int64_t scale_bytes_ = 0;
};

template <typename Code>
void QuantisedMatrix::set_row(std::int64_t row,
                              std::int64_t first,
                              std::int64_t n,
                              Code const& code) const {
  std::int64_t const start = row * columns_;
  if (element_bits(type_) == 8) {
    for (std::int64_t i = first; i < first + n; ++i) elements_[start + i] = code(i);
    return;
  }
  for (std::int64_t i = first; i < first + n; ++i) {
    std::uint8_t& byte = elements_[(start + i) / 2];
    bool const is_high = (start + i) % 2 == 1;
    int const kept = is_high ? byte & 0x0F : byte & 0xF0;
    byte = static_cast<std::uint8_t>(kept | code(i) << (is_high ? 4 : 0));
  }
}

/// The matrix of an operand as quantise reads it: [rows, columns] of a tensor whose first axis, or
/// whose first two if it has more than two, are rows.
struct PlainMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
PlainMatrix plain_matrix(Operand const& operand);

}  // namespace stagecraft
