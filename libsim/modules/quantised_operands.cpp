#include "libsim/modules/quantised_operands.hpp"

namespace stagecraft {
namespace {

/// Rows and columns of a tensor [rows, columns] or [s, b, ...], as a product takes it.
ScaledMatrix matrix_of(Tensor const& tensor, std::int64_t groups) {
  Shape const& shape = tensor.shape;
  std::int64_t const rows = shape.rank() < 3 ? shape[0] : shape[0] * shape[1];
  return {.rows = rows, .columns = shape.elements() / rows, .groups = groups};
}

TensorId make_copy(
    ProgramBuilder& builder, Name name, TensorId of, ElementType type, std::int64_t scale_bytes) {
  Shape const shape = builder.tensor(of).shape;  // a copy: make() moves the tensors
  TensorId const made = builder.make(name, shape, type);
  builder.program().tensors.back().scale_bytes = scale_bytes;
  return made;
}

TensorId measure_amax(ProgramBuilder& builder,
                      std::string_view owner,
                      Phase phase,
                      TensorId x,
                      QuantiseRequest const& request) {
  bool const is_input = request.role == QuantisedRole::input;
  TensorId const amax = builder.make({owner, is_input ? "input_amax" : "gradient_amax"},
                                     {request.groups}, ElementType::f32);
  builder.add(OpKind::measure_amax, {owner, is_input ? "measure_input" : "measure_gradient"}, phase,
              {x}, {amax});
  if (!request.is_gathered) return amax;
  Op* const op = builder.collective(
      OpKind::all_reduce, {owner, is_input ? "all_reduce_input_amax" : "all_reduce_gradient_amax"},
      phase, amax, amax, amax, Overlap::none);
  if (op != nullptr) op->reduction = Reduction::maximum;
  return amax;
}

}  // namespace

Quantised quantise(ProgramBuilder& builder,
                   std::string_view owner,
                   Phase phase,
                   TensorId x,
                   QuantiseRequest const& request) {
  Quantisation const& quantisation = builder.shape().quantisation;
  RecipeTraits const& recipe = quantisation.traits();
  bool const is_input = request.role == QuantisedRole::input;
  ElementType const type = is_input ? ElementType::f8_e4m3 : quantisation.gradients;
  TensorId const amax =
      recipe.measures_first ? measure_amax(builder, owner, phase, x, request) : no_tensor;
  ScaledMatrix const matrix = matrix_of(builder.tensor(x), request.groups);
  auto const copy = [&](std::string_view part, bool by_columns) {
    TensorId const made = make_copy(builder, {owner, part}, x, type,
                                    scale_bytes(recipe, recipe.of_activations, matrix, by_columns));
    return builder.is_of_experts(x) ? builder.of_experts(made) : made;
  };
  Quantised copies;
  copies.rows = copy(is_input ? "input_rows" : "gradient_rows", false);
  if (quantisation.has_two_copies()) {
    copies.columns = copy(is_input ? "input_columns" : "gradient_columns", true);
  }
  builder.add(OpKind::quantise, {owner, is_input ? "quantise_input" : "quantise_gradient"}, phase,
              {x, amax}, {copies.rows, copies.columns}, QuantiseAttributes{quantisation.recipe});
  return copies;
}

TensorId transposed(ProgramBuilder& builder, Name name, Name op, Phase phase, TensorId rows) {
  if (!builder.shape().quantisation.has_two_copies()) return rows;
  TensorId const columns =
      make_copy(builder, name, rows, builder.tensor(rows).type, builder.tensor(rows).scale_bytes);
  builder.add(OpKind::transpose_quantised, op, phase, {rows}, {columns});
  return columns;
}

Quantised kept_copies(ProgramBuilder& builder,
                      std::string_view owner,
                      TensorId weight,
                      std::int64_t groups) {
  Quantisation const& quantisation = builder.shape().quantisation;
  RecipeTraits const& recipe = quantisation.traits();
  ScaledMatrix const matrix = matrix_of(builder.tensor(weight), groups);
  auto const copy = [&](std::string_view part, bool by_columns) {
    TensorId const made = make_copy(builder, {owner, part}, weight, ElementType::f8_e4m3,
                                    scale_bytes(recipe, recipe.of_weights, matrix, by_columns));
    Tensor& tensor = builder.program().tensors.back();
    tensor.category = Category::parameters;
    tensor.lifetime = Lifetime::job;
    return made;
  };
  Quantised copies;
  copies.rows = copy("weight_rows", false);
  if (quantisation.has_two_copies()) copies.columns = copy("weight_columns", true);
  builder.program().quantised_weights.push_back({weight, copies.rows, copies.columns});
  return copies;
}

}  // namespace stagecraft
