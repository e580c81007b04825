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

/// What a role's tensors and ops are called.
struct RoleNames {
  std::string_view amax;
  std::string_view measure;
  std::string_view agree;
  std::string_view quantise;
  std::string_view rows;
  std::string_view columns;
};

constexpr RoleNames names_of(QuantisedRole role) {
  switch (role) {
    case QuantisedRole::input_again:
      return {"input_again_amax",     "measure_input_again", "all_reduce_input_again_amax",
              "quantise_input_again", "input_again_rows",    "input_again_columns"};
    case QuantisedRole::gradient:
      return {"gradient_amax",     "measure_gradient", "all_reduce_gradient_amax",
              "quantise_gradient", "gradient_rows",    "gradient_columns"};
    case QuantisedRole::input:
      break;
  }
  return {"input_amax",     "measure_input", "all_reduce_input_amax",
          "quantise_input", "input_rows",    "input_columns"};
}

TensorId measure_amax(ProgramBuilder& builder,
                      std::string_view owner,
                      Phase phase,
                      TensorId x,
                      QuantiseRequest const& request) {
  RoleNames const names = names_of(request.role);
  TensorId const amax = builder.make({owner, names.amax}, {request.groups}, ElementType::f32);
  builder.add(OpKind::measure_amax, {owner, names.measure}, phase, {x}, {amax});
  if (!request.is_gathered) return amax;
  Op* const op = builder.collective(OpKind::all_reduce, {owner, names.agree}, phase, amax, amax,
                                    amax, Overlap::none);
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
  RoleNames const names = names_of(request.role);
  ElementType const type =
      request.role == QuantisedRole::gradient ? quantisation.gradients : recipe.elements;
  TensorId const amax =
      recipe.measures_first ? measure_amax(builder, owner, phase, x, request) : no_tensor;
  ScaledMatrix const matrix = matrix_of(builder.tensor(x), request.groups);
  auto const copy = [&](std::string_view part, bool by_columns) {
    TensorId const made = make_copy(builder, {owner, part}, x, type,
                                    scale_bytes(recipe, recipe.of_activations, matrix, by_columns));
    return builder.has_unused_rows(x) ? builder.of_experts(made) : made;
  };
  Quantised copies;
  copies.rows = copy(names.rows, false);
  if (quantisation.has_two_copies()) {
    copies.columns = copy(names.columns, true);
  }
  builder.add(OpKind::quantise, {owner, names.quantise}, phase, {x, amax},
              {copies.rows, copies.columns}, QuantiseAttributes{quantisation.recipe});
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
    TensorId const made = make_copy(builder, {owner, part}, weight, recipe.elements,
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
