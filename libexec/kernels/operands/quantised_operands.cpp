#include "libexec/kernels/operands/quantised_operands.hpp"

#include <algorithm>
#include <cstring>

#include "libsim/program/quantisation.hpp"

namespace stagecraft {

PlainMatrix plain_matrix(Operand const& operand) {
  Shape const& shape = operand.shape;
  std::int64_t const rows = shape.rank() < 3 ? shape[0] : shape[0] * shape[1];
  return {.rows = rows, .columns = shape.elements() / std::max<std::int64_t>(rows, 1)};
}

QuantisedMatrix::QuantisedMatrix(KernelCall const& call, Operand const& operand)
    : elements_{static_cast<std::uint8_t*>(operand.data)},
      type_{operand.type},
      recipe_{operand.scales.recipe},
      segments_{operand.scales.segments} {
  expect(call, is_quantised(operand.type) && operand.shape.rank() >= 1,
         "an operand is not quantised");
  expect(call, operand.data != nullptr && is_contiguous(operand),
         "a quantised operand is a view, or has no address");
  auto const [rows, columns] = plain_matrix(operand);
  rows_ = rows;
  columns_ = columns;
  expect(call, element_bits(type_) == 8 || columns % 2 == 0, "two rows share a byte");
  scales_ = static_cast<std::byte*>(operand.data) + bytes_of(rows * columns, type_).count();
  expect(call, segments_ > 0 && rows % segments_ == 0, "segments have no equal number of rows");
  rows_of_segment_ = block_rows_ = measured_rows_ = rows / segments_;
  block_columns_ = measured_columns_ = columns;
  if (recipe_ == Recipe::none) {
    expect(call, operand.scales.bytes == 0, "scales are of no recipe");
    return;
  }
  RecipeTraits const& traits = *find_recipe(recipe_);
  ScaleBlocks const& blocks = blocks_of(operand.scales);
  scale_type_ = traits.scale_type;
  has_one_scale_ = blocks.along == 0;
  has_tensor_scale_ = traits.has_tensor_scale && !has_one_scale_;
  bool const by_columns = operand.scales.by_columns;
  ScaledRole const role = operand.scales.of_weight ? ScaledRole::weight : ScaledRole::activation;
  scale_bytes_ = scale_layout(traits, role, {.rows = rows, .columns = columns, .groups = segments_},
                              by_columns)
                     .bytes;
  expect(call, scale_bytes_ == operand.scales.bytes, "scales take other bytes than their layout");
  segment_bytes_ = scale_bytes_ / segments_;
  if (has_one_scale_) return;
  std::int64_t const along_all = by_columns ? rows_of_segment_ : columns;
  std::int64_t const along = std::min(blocks.along, along_all);
  block_rows_ = by_columns ? along : blocks.across;
  block_columns_ = by_columns ? blocks.across : along;
  std::int64_t const across_step = scales_along(blocks, along_all);
  row_step_ = by_columns ? 1 : across_step;
  column_step_ = by_columns ? across_step : 1;
  bool const is_square = operand.scales.of_weight && traits.has_square_blocks;
  measured_rows_ = is_square ? blocks.along : block_rows_;
  measured_columns_ = is_square ? blocks.along : block_columns_;
  measured_rows_ = std::min(measured_rows_, rows_of_segment_);
  measured_columns_ = std::min(measured_columns_, columns);
}

std::byte* QuantisedMatrix::scale_at(std::int64_t row, std::int64_t column) const {
  std::byte* const segment = scales_ + row / rows_of_segment_ * segment_bytes_;
  if (has_one_scale_) return segment;
  std::int64_t const index =
      row % rows_of_segment_ / block_rows_ * row_step_ + column / block_columns_ * column_step_;
  return segment + index * element_size(scale_type_);
}

std::byte* QuantisedMatrix::tensor_scale_at(std::int64_t segment) const {
  return scales_ + (segment + 1) * segment_bytes_ - element_size(ElementType::f32);
}

void QuantisedMatrix::clear_scales() const {
  std::memset(scales_, 0, static_cast<std::size_t>(scale_bytes_));
}

void QuantisedMatrix::set_scale(std::int64_t row,
                                std::int64_t column,
                                BlockScale const& scale) const {
  if (recipe_ == Recipe::none) return;
  std::byte* const place = scale_at(row, column);
  if (scale_type_ == ElementType::f32) {
    std::memcpy(place, &scale.inverse, sizeof scale.inverse);
  } else {
    std::memcpy(place, &scale.code, sizeof scale.code);
  }
}

void QuantisedMatrix::set_tensor_scale(std::int64_t segment, float decode) const {
  std::memcpy(tensor_scale_at(segment), &decode, sizeof decode);
}

float QuantisedMatrix::scale_of(std::int64_t row, std::int64_t column) const {
  if (recipe_ == Recipe::none) return 1;
  std::byte const* const place = scale_at(row, column);
  if (scale_type_ == ElementType::f32) {
    float scale = 0;
    std::memcpy(&scale, place, sizeof scale);
    return scale;
  }
  auto const code = std::to_integer<std::uint8_t>(*place);
  if (!has_tensor_scale_) return decode_e8m0(code);
  float tensor = 0;
  std::memcpy(&tensor, tensor_scale_at(row / rows_of_segment_), sizeof tensor);
  return numbers_of<e4m3>[code] * tensor;
}

void QuantisedMatrix::read(std::int64_t row, std::int64_t first, std::int64_t n, float* to) const {
  float const* const numbers = numbers_of_type(type_);
  std::int64_t const start = row * columns_;
  bool const shares_bytes = element_bits(type_) < 8;
  for (std::int64_t i = first; i < first + n;) {
    std::int64_t const end = std::min(first + n, (i / block_columns_ + 1) * block_columns_);
    float const scale = scale_of(row, i);
    for (; i < end; ++i) {
      std::int64_t const at = start + i;
      unsigned const code = shares_bytes ? elements_[at / 2] >> (at % 2 * 4) : elements_[at];
      to[i - first] = numbers[code & 0xFFU] * scale;
    }
  }
}

}  // namespace stagecraft
