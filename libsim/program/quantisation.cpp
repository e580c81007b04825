#include "libsim/program/quantisation.hpp"

namespace stagecraft {
namespace {

std::int64_t scale_bytes(RecipeTraits const& recipe,
                         ScaleBlocks const& blocks,
                         ScaledMatrix const& matrix,
                         bool by_columns) {
  std::int64_t const size = element_size(recipe.scale_type);
  if (blocks.along == 0) return matrix.groups * size;
  std::int64_t const rows = divide_up(matrix.rows, matrix.groups);
  std::int64_t const across = divide_up(by_columns ? matrix.columns : rows, blocks.across);
  std::int64_t const of_blocks = scales_along(blocks, by_columns ? rows : matrix.columns) *
                                 divide_up(across, blocks.pad_across) * blocks.pad_across * size;
  std::int64_t const of_tensor = recipe.has_tensor_scale ? element_size(ElementType::f32) : 0;
  return matrix.groups * (of_blocks + of_tensor);
}

ScaleBlocks const& blocks_of(RecipeTraits const& recipe, ScaledRole role) {
  return role == ScaledRole::weight ? recipe.of_weights : recipe.of_activations;
}

}  // namespace

ScaleLayout scale_layout(RecipeTraits const& recipe,
                         ScaledRole role,
                         ScaledMatrix const& matrix,
                         bool by_columns) {
  return {.recipe = recipe.recipe,
          .of_weight = role == ScaledRole::weight,
          .by_columns = by_columns,
          .segments = static_cast<std::int32_t>(matrix.groups),
          .bytes = scale_bytes(recipe, blocks_of(recipe, role), matrix, by_columns)};
}

ScaleBlocks const& blocks_of(ScaleLayout const& layout) {
  RecipeTraits const* const row = find_recipe(layout.recipe);
  if (row == nullptr) throw std::logic_error{"a tensor without scales has no blocks"};
  return blocks_of(*row, layout.of_weight ? ScaledRole::weight : ScaledRole::activation);
}

std::string bits_text(Recipe recipe) {
  RecipeTraits const* const row = find_recipe(recipe);
  if (row == nullptr) throw std::logic_error{"a recipe that is not modelled"};
  return std::to_string(element_bits(row->elements)) + " bits (" + std::string{name_of(recipe)} +
         ")";
}

}  // namespace stagecraft
