#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "libsim/model/low_precision.hpp"
#include "libsim/program/op_attributes.hpp"
#include "libsim/program/tensor.hpp"
#include "libsim/units/divide_up.hpp"

/// What operands of products in 8 or 4 bits are, by recipe.
namespace stagecraft {

/// The elements that share a scale, and what the matrix of scales is padded to. `along` is the axis
/// over which a product sums, `across` the other one.
struct ScaleBlocks {
  std::int64_t along = 0;  ///< 0: one scale for the whole tensor
  std::int64_t across = 1;
  std::int64_t pad_along = 1;
  std::int64_t pad_across = 1;
};

/// Scales, with their padding, over so many elements that a product sums. Pre: blocks.along > 0.
constexpr std::int64_t scales_along(ScaleBlocks const& blocks, std::int64_t length) {
  return divide_up(divide_up(length, blocks.along), blocks.pad_along) * blocks.pad_along;
}

/// `along` of a scale for each row, however long it is.
inline constexpr std::int64_t whole_row = std::int64_t{1} << 40;

/// What a recipe stores and does.
/// Source: Transformer Engine, transformer_engine/pytorch/tensor/{float8,float8_blockwise,mxfp8,
/// nvfp4}_tensor.py (get_scale_shape) and common/recipe/__init__.py (formats); of rowwise, torchao,
/// float8/config.py, Float8LinearConfig.from_recipe_name.
struct RecipeTraits {
  Recipe recipe = Recipe::none;
  Scaling scaling = Scaling::none;
  ElementType elements = ElementType::f8_e4m3;  ///< of all operands, unless is_hybrid
  ElementType scale_type = ElementType::f32;
  ScaleBlocks of_activations{};  ///< gradients included
  ScaleBlocks of_weights{};
  bool has_tensor_scale = false;   ///< one in f32 for the whole tensor besides those of its blocks
  bool has_square_blocks = false;  ///< in weights: a transposed copy has the same scales
  std::int64_t alignment = 1;      ///< divides the width and the depth of a linear layer
  bool is_hybrid = false;          ///< `auto`: gradients have f8_e5m2
  bool measures_first =
      false;  ///< the largest element is found before the cast, in a pass of its own
  /// What the kernel of a norm does for the linear layer behind it: it finds the largest element of
  /// its output, or writes the rows in 8 bits itself. With nvfp4 it does neither by default, as a
  /// random Hadamard transform comes first.
  /// Source: Transformer Engine d0067d0d, pytorch/csrc/extensions/normalization.cpp.
  bool norm_measures = false;
  bool norm_casts = false;
  /// The copy by columns is made of one in 16 bits that is transposed first, because a kernel that
  /// scales whole columns cannot read rows.
  /// Source: torchao, testing/training/roofline_utils.py, get_tensor_memory_traffic_ovhd_s.
  bool transposes_first = false;
  int capability = 9;  ///< least major number of CUDA's compute capability
};

inline constexpr std::array recipe_traits{
    RecipeTraits{.recipe = Recipe::delayed,
                 .scaling = Scaling::tensor,
                 .alignment = 16,
                 .is_hybrid = true,
                 .norm_casts = true},
    RecipeTraits{.recipe = Recipe::current,
                 .scaling = Scaling::tensor,
                 .alignment = 16,
                 .is_hybrid = true,
                 .measures_first = true,
                 .norm_measures = true},
    RecipeTraits{.recipe = Recipe::rowwise,
                 .scaling = Scaling::rows,
                 .of_activations = {.along = whole_row},
                 .of_weights = {.along = whole_row},
                 .alignment = 16,
                 .transposes_first = true,
                 .capability = 0},
    RecipeTraits{.recipe = Recipe::blockwise,
                 .scaling = Scaling::blocks_of_128,
                 .of_activations = {.along = 128, .pad_across = 4},
                 .of_weights = {.along = 128, .across = 128, .pad_along = 4},
                 .has_square_blocks = true,
                 .alignment = 128},
    RecipeTraits{.recipe = Recipe::mxfp8,
                 .scaling = Scaling::blocks_of_32,
                 .scale_type = ElementType::u8,
                 .of_activations = {.along = 32, .pad_along = 4, .pad_across = 128},
                 .of_weights = {.along = 32, .pad_along = 4, .pad_across = 128},
                 .alignment = 32,
                 .capability = 10},
    // Each row of 16 elements of a weight has its scale in memory, though 16 rows have the same.
    RecipeTraits{.recipe = Recipe::nvfp4,
                 .scaling = Scaling::blocks_of_16,
                 .elements = ElementType::f4_e2m1,
                 .scale_type = ElementType::u8,
                 .of_activations = {.along = 16, .pad_along = 4, .pad_across = 128},
                 .of_weights = {.along = 16, .pad_along = 4, .pad_across = 128},
                 .has_tensor_scale = true,
                 .has_square_blocks = true,
                 .alignment = 16,
                 .measures_first = true,
                 .capability = 10},
};

/// Null: there is no such row, because products stay in model.precision or the recipe is not
/// modelled.
constexpr RecipeTraits const* find_recipe(Recipe recipe) {
  for (RecipeTraits const& row : recipe_traits) {
    if (row.recipe == recipe) return &row;
  }
  return nullptr;
}

/// "8 bits (mxfp8)". Pre: there is a row of the recipe.
std::string bits_text(Recipe recipe);

/// How a block quantises the operands of its linear layers.
struct Quantisation {
  Recipe recipe = Recipe::none;
  ElementType gradients = ElementType::f8_e4m3;  ///< type of the gradients that products read
  /// Whether products sum only along rows, so that they need transposed copies of operands with one
  /// scale for all elements. Other copies always differ.
  bool transposes = false;
  bool replaces_weights = false;  ///< weights have no copy in 16 bits beside the quantised ones
  /// Whether forward makes the copies that it reads alone, and backward makes those by columns of
  /// them.
  /// Source: DeepSeek-AI 2024, DeepSeek-V3, arXiv:2412.19437, section 3.5.2, "Support for transposed
  /// GEMM operations".
  bool casts_again = false;
  /// Whether weights have no quantised copies from one microbatch to the next: each pass casts what
  /// it reads.
  bool casts_weights = false;
  /// Whether backward has a linear layer's input in 16 bits, and casts it again.
  bool keeps_high_inputs = false;
  bool gathers_high = false;  ///< ranks of the tensor group gather operands in 16 bits
  /// Whether these agree on the largest element of every operand, whole or not.
  bool agrees_on_scales = false;
  bool has_low_units = false;            ///< units gather weights quantised
  bool sends_low = false;                ///< tokens travel to their experts quantised
  bool sends_low_gradients = false;      ///< so do the gradients of what experts compute
  bool attends_low = false;              ///< core attention multiplies in 8 bits
  bool heads_low = false;                ///< so does the head, in the recipe
  bool keeps_high_gradients = false;     ///< products for gradients of weights are not quantised
  bool stores_activation_input = false;  ///< backward has the activation's input in 8 bits
  /// Whether the activation's kernel writes a quantised tensor.
  bool fuses_activation = false;
  /// Whether each backward transposes the quantised weights, of which one copy is kept.
  bool transposes_weights = false;
  /// Whether backward has in 12 bits what core attention gives.
  /// Source: DeepSeek-AI 2024, DeepSeek-V3, arXiv:2412.19437, section 3.3.3 (E5M6).
  bool narrows_context = false;
  /// Whether shared experts read the copies that are made of tokens and of gradients to be sent.
  bool shares_casts = false;

  bool is_on() const { return recipe != Recipe::none; }
  /// Pre: is_on().
  RecipeTraits const& traits() const {
    RecipeTraits const* const row = find_recipe(recipe);
    if (row == nullptr) throw std::logic_error{"a recipe that is not modelled"};
    return *row;
  }
  /// Whether a tensor has one scale, so that its rows may be gathered and transposed afterwards.
  bool is_per_tensor() const { return traits().scaling == Scaling::tensor; }
  /// Whether backward may quantise once more what something else keeps in 16 bits. With `delayed`
  /// it would record the largest element twice; torchao keeps what its products read.
  /// Source: Megatron-LM, core/transformer/attention.py, set_save_original_input.
  bool may_quantise_again() const { return is_on() && recipe != Recipe::delayed && !casts_weights; }
  /// Whether products along rows and along columns read different copies of a tensor.
  bool has_two_copies() const { return transposes || !is_per_tensor(); }
  /// Whether both are kept of weights.
  bool keeps_two_copies() const { return has_two_copies() && !transposes_weights; }
  /// Whether the columns of a weight can be made of its quantised rows, so that ranks gather these.
  /// Blocks along rows are not those along columns, unless they are square.
  /// Source: Transformer Engine, pytorch/tensor/utils.py, post_all_gather_processing; Megatron-LM,
  /// core/distributed/param_and_grad_buffer.py, shared_buffer.
  bool gathers_low_weights() const { return is_per_tensor() || traits().has_square_blocks; }
};

/// A matrix whose groups of rows are scaled apart.
struct ScaledMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t groups = 1;  ///< of equally many rows
};

/// Whether a tensor is a weight, whose blocks may differ from those of activations and gradients.
enum class ScaledRole : std::uint8_t { activation, weight };

/// The scales of a copy that products sum along the rows of, or along its columns.
ScaleLayout scale_layout(RecipeTraits const& recipe,
                         ScaledRole role,
                         ScaledMatrix const& matrix,
                         bool by_columns);

/// The blocks that share the scales of a layout. Pre: it has a recipe.
ScaleBlocks const& blocks_of(ScaleLayout const& layout);

/// Bytes of the scales of one row, if rows are kept one by one: not padded. Pre: the recipe's
/// blocks are within rows.
constexpr std::int64_t scale_bytes_of_row(RecipeTraits const& recipe, std::int64_t columns) {
  return divide_up(columns, recipe.of_activations.along) * element_size(recipe.scale_type);
}

/// What backward reads in place of an input of the activation, which is kept in 8 bits.
struct StoredInput {
  TensorId input = no_tensor;
  TensorId restored = no_tensor;
};

/// A weight with the quantised copies that a rank keeps from one step to the next.
struct QuantisedWeight {
  TensorId weight = no_tensor;
  TensorId rows = no_tensor;
  TensorId columns = no_tensor;  ///< no_tensor: products along columns read `rows`
};

}  // namespace stagecraft
