#include "libsim/program/quantisation.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

}  // namespace

std::int64_t scale_bytes(RecipeTraits const& recipe,
                         ScaleBlocks const& blocks,
                         ScaledMatrix const& matrix,
                         bool by_columns) {
  std::int64_t const size = element_size(recipe.scale_type);
  if (blocks.along == 0) return matrix.groups * size;
  std::int64_t const rows = divide_up(matrix.rows, matrix.groups);
  std::int64_t const along = divide_up(by_columns ? rows : matrix.columns, blocks.along);
  std::int64_t const across = divide_up(by_columns ? matrix.columns : rows, blocks.across);
  return matrix.groups * round_up(along, blocks.pad_along) * round_up(across, blocks.pad_across) *
         size;
}

}  // namespace stagecraft
