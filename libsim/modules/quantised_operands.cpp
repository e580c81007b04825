#include "libsim/modules/quantised_operands.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace stagecraft {
namespace {

/// Rows and columns of a tensor [rows, columns] or [s, b, ...], as a product takes it.
ScaledMatrix matrix_of(Tensor const& tensor, std::int64_t groups) {
  Shape const& shape = tensor.shape;
  std::int64_t const rows = shape.rank() < 3 ? shape[0] : shape[0] * shape[1];
  return {.rows = rows, .columns = shape.elements() / rows, .groups = groups};
}

TensorId make_copy(
    ProgramBuilder& builder, Name name, TensorId of, ElementType type, ScaleLayout const& scales) {
  Shape const shape = builder.tensor(of).shape;  // a copy: make() moves the tensors
  TensorId const made = builder.make(name, shape, type);
  builder.program().tensors.back().scales = scales;
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
  std::string_view quantise_columns;
  std::string_view transpose;
  std::string_view transposed;
};

constexpr RoleNames names_of(QuantisedRole role) {
  switch (role) {
    case QuantisedRole::input_again:
      return {"input_again_amax",
              "measure_input_again",
              "all_reduce_input_again_amax",
              "quantise_input_again",
              "input_again_rows",
              "input_again_columns",
              "quantise_input_again_columns",
              "transpose_input_again",
              "transposed_input_again"};
    case QuantisedRole::weight:
      return {"weight_amax",      "measure_weight", "all_reduce_weight_amax",  "quantise_weight",
              "weight_rows",      "weight_columns", "quantise_weight_columns", "transpose_weight",
              "transposed_weight"};
    case QuantisedRole::weight_again:
      return {"weight_again_amax",
              "measure_weight_again",
              "all_reduce_weight_again_amax",
              "quantise_weight_again",
              "weight_again_rows",
              "weight_again_columns",
              "quantise_weight_again_columns",
              "transpose_weight_again",
              "transposed_weight_again"};
    case QuantisedRole::gradient:
      return {"gradient_amax",
              "measure_gradient",
              "all_reduce_gradient_amax",
              "quantise_gradient",
              "gradient_rows",
              "gradient_columns",
              "quantise_gradient_columns",
              "transpose_gradient",
              "transposed_gradient_high"};
    case QuantisedRole::input:
      break;
  }
  return {"input_amax",           "measure_input", "all_reduce_input_amax",  "quantise_input",
          "input_rows",           "input_columns", "quantise_input_columns", "transpose_input",
          "transposed_input_high"};
}

TensorId measure_amax(ProgramBuilder& builder,
                      std::string_view owner,
                      Phase phase,
                      TensorId x,
                      QuantiseRequest const& request) {
  RoleNames const names = names_of(request.role);
  TensorId const amax = builder.make({owner, names.amax}, {request.groups}, ElementType::f32);
  Op& measured = builder.add(OpKind::measure_amax, {owner, names.measure}, phase, {x}, {amax});
  // The norm has found it in its own pass.
  if (request.follows_norm && builder.shape().quantisation.traits().norm_measures) {
    measured.traffic = builder.tensor(amax).bytes();
  }
  if (!request.is_gathered && !builder.shape().quantisation.agrees_on_scales) return amax;
  Op* const op = builder.collective(OpKind::all_reduce, {owner, names.agree}, phase, amax, amax,
                                    amax, Overlap::none);
  if (op != nullptr) op->reduction = Reduction::maximum;
  return amax;
}

/// The rows that `cast` makes of x are written by the norm that makes x, in place of x; only the
/// columns are made of these rows.
void cast_in_norm(ProgramBuilder& builder, Op& cast, TensorId x, Quantised const& copies) {
  std::vector<Op>& ops = builder.program().forward;
  auto const norm = std::find_if(ops.rbegin(), ops.rend(), [&](Op const& op) {
    return op.kind == OpKind::norm && op.writes[0] == x;
  });
  if (norm == ops.rend()) return;
  Bytes const rows = builder.tensor(copies.rows).bytes();
  norm->traffic = Bytes{norm->traffic.count() - (builder.tensor(x).bytes() - rows).count()};
  cast.traffic =
      copies.columns == no_tensor ? Bytes{} : rows + builder.tensor(copies.columns).bytes();
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
  bool const is_weight =
      request.role == QuantisedRole::weight || request.role == QuantisedRole::weight_again;
  // The weight's gradient in 16 bits goes with one scale of the weight (torchao's
  // rowwise_with_gw_hp).
  bool const has_one_scale =
      request.role == QuantisedRole::weight_again && quantisation.keeps_high_gradients;
  RecipeTraits const& scaled = has_one_scale ? *find_recipe(Recipe::current) : recipe;
  ScaledRole const role = is_weight ? ScaledRole::weight : ScaledRole::activation;
  Quantised copies;
  copies.amax = request.amax;
  if ((recipe.measures_first || has_one_scale) && copies.amax == no_tensor) {
    copies.amax = measure_amax(builder, owner, phase, x, request);
  }
  ScaledMatrix const matrix = matrix_of(builder.tensor(x), request.groups);
  auto const copy = [&](std::string_view part, bool by_columns) {
    TensorId const made =
        make_copy(builder, {owner, part}, x, type, scale_layout(scaled, role, matrix, by_columns));
    return builder.has_unused_rows(x) ? builder.of_experts(made) : made;
  };
  bool const is_cast_again = quantisation.casts_again && request.role == QuantisedRole::input;
  bool const has_columns = quantisation.has_two_copies() && !is_cast_again;
  if (request.copies != QuantisedCopies::columns || !has_columns) {
    copies.rows = copy(names.rows, false);
  }
  if (request.copies != QuantisedCopies::rows && has_columns) {
    copies.columns = copy(names.columns, true);
  }
  auto const cast = [&](std::string_view op, TensorId from, TensorList const& made) {
    Op& added = builder.add(OpKind::quantise, {owner, op}, phase, {from, copies.amax}, made,
                            QuantiseAttributes{quantisation.recipe});
    if (request.follows_norm && recipe.norm_casts) cast_in_norm(builder, added, x, copies);
  };
  bool const is_transposed_first =
      recipe.transposes_first && copies.columns != no_tensor && !has_one_scale;
  if (!quantisation.casts_again && !is_transposed_first) {
    cast(names.quantise, x, {copies.rows, copies.columns});
    return copies;
  }
  if (copies.rows != no_tensor) cast(names.quantise, x, {copies.rows});
  if (copies.columns == no_tensor) return copies;
  TensorId from = x;
  if (is_transposed_first) {
    from = make_copy(builder, {owner, names.transposed}, x, builder.tensor(x).type, {});
    Op& op = builder.add(OpKind::copy_tensor, {owner, names.transpose}, phase, {x}, {from});
    if (copies.rows != no_tensor) op.traffic = builder.tensor(from).bytes();
  }
  cast(names.quantise_columns, from, {copies.columns});
  return copies;
}

TensorId columns_of(ProgramBuilder& builder,
                    std::string_view owner,
                    QuantisedRole role,
                    Quantised const& x,
                    std::int64_t groups) {
  Quantisation const& quantisation = builder.shape().quantisation;
  if (x.columns != no_tensor || !quantisation.has_two_copies()) return x.by_columns();
  RoleNames const names = names_of(role);
  RecipeTraits const& recipe = quantisation.traits();
  ScaledMatrix const matrix = matrix_of(builder.tensor(x.rows), groups);
  TensorId const made =
      make_copy(builder, {owner, names.columns}, x.rows, builder.tensor(x.rows).type,
                scale_layout(recipe, ScaledRole::activation, matrix, true));
  if (builder.has_unused_rows(x.rows)) builder.of_experts(made);
  builder.add(OpKind::transpose_quantised, {owner, names.transpose}, Phase::weight_gradient,
              {x.rows}, {made});
  return made;
}

TensorId weight_by_columns(ProgramBuilder& builder,
                           std::string_view owner,
                           Quantised const& weight,
                           std::int64_t groups) {
  Quantisation const& quantisation = builder.shape().quantisation;
  if (!quantisation.transposes_weights) return weight.by_columns();
  Tensor const& rows = builder.tensor(weight.rows);
  ScaleLayout const scales =
      scale_layout(quantisation.traits(), ScaledRole::weight, matrix_of(rows, groups), true);
  TensorId const made =
      make_copy(builder, {owner, "weight_columns"}, weight.rows, rows.type, scales);
  builder.add(OpKind::transpose_quantised, {owner, "transpose_weight"}, Phase::input_gradient,
              {weight.rows}, {made});
  return made;
}

TensorId with_row_scales(ProgramBuilder& builder, TensorId rows) {
  Tensor& tensor = builder.program().tensors[static_cast<std::size_t>(rows)];
  if (!is_quantised(tensor.type)) return rows;
  RecipeTraits const& recipe = builder.shape().quantisation.traits();
  tensor.scales = {.recipe = recipe.recipe,
                   .segments = static_cast<std::int32_t>(tensor.shape[0]),
                   .bytes = tensor.shape[0] * scale_bytes_of_row(recipe, tensor.shape[1])};
  return rows;
}

TensorId make_operand(
    ProgramBuilder& builder, Name name, Shape shape, ElementType type, std::int64_t groups) {
  TensorId const made = builder.make(name, shape, type);
  if (!is_quantised(type)) return made;
  RecipeTraits const& recipe = builder.shape().quantisation.traits();
  builder.program().tensors.back().scales =
      scale_layout(recipe, ScaledRole::activation, matrix_of(builder.tensor(made), groups), false);
  return made;
}

ElementType activation_output_type(ProgramBuilder const& builder) {
  Quantisation const& quantisation = builder.shape().quantisation;
  return quantisation.fuses_activation ? quantisation.traits().elements : builder.type();
}

TensorId store_input(ProgramBuilder& builder, std::string_view owner, TensorId x) {
  Quantisation const& quantisation = builder.shape().quantisation;
  if (!quantisation.stores_activation_input) return no_tensor;
  Shape const shape = builder.tensor(x).shape;  // a copy: make() moves the tensors
  Name const name{owner, "stored_input"};
  // Rows have blocks of their own, whatever their experts are.
  TensorId const stored = quantisation.fuses_activation
                              ? make_operand(builder, name, shape, ElementType::f8_e4m3)
                              : builder.make(name, shape, ElementType::f8_e4m3);
  if (builder.has_unused_rows(x)) builder.of_experts(stored);
  builder.add(OpKind::quantise, {owner, "store_input"}, Phase::forward, {x}, {stored},
              QuantiseAttributes{quantisation.recipe});
  return stored;
}

TensorId restore_input(ProgramBuilder& builder,
                       std::string_view owner,
                       TensorId x,
                       TensorId stored) {
  if (stored == no_tensor) return x;
  Shape const shape = builder.tensor(x).shape;  // a copy: make() moves the tensors
  TensorId const restored = builder.make({owner, "restored_input"}, shape);
  if (builder.has_unused_rows(x)) builder.of_experts(restored);
  builder.add(OpKind::dequantise, {owner, "restore_input"}, Phase::input_gradient, {stored},
              {restored});
  builder.program().stored_inputs.push_back({x, restored});
  return restored;
}

TensorId narrow_context(ProgramBuilder& builder, std::string_view owner, TensorId context) {
  Quantisation const& quantisation = builder.shape().quantisation;
  if (!quantisation.narrows_context) return no_tensor;
  Shape const& shape = builder.tensor(context).shape;
  std::int64_t const width = shape[2];
  std::int64_t const rows = shape[0] * shape[1];
  TensorId const narrow =
      builder.make({owner, "narrow_context"}, {shape[0], shape[1], width * 3 / 2}, ElementType::u8);
  builder.program().tensors.back().scales = {
      .recipe = quantisation.recipe,
      .bytes = rows * scale_bytes_of_row(quantisation.traits(), width)};
  builder.add(OpKind::quantise, {owner, "narrow_context"}, Phase::forward, {context}, {narrow},
              QuantiseAttributes{quantisation.recipe});
  return narrow;
}

TensorId widen_context(ProgramBuilder& builder,
                       std::string_view owner,
                       TensorId narrow,
                       Shape const& shape) {
  TensorId const wide = builder.make({owner, "wide_context"}, shape);
  builder.add(OpKind::dequantise, {owner, "widen_context"}, Phase::input_gradient, {narrow},
              {wide});
  return wide;
}

TensorId transposed(ProgramBuilder& builder, Name name, Name op, Phase phase, TensorId rows) {
  if (!builder.shape().quantisation.has_two_copies()) return rows;
  ScaleLayout scales = builder.tensor(rows).scales;
  scales.by_columns = true;
  TensorId const columns = make_copy(builder, name, rows, builder.tensor(rows).type, scales);
  builder.add(OpKind::transpose_quantised, op, phase, {rows}, {columns});
  return columns;
}

Quantised kept_copies(ProgramBuilder& builder,
                      std::string_view owner,
                      TensorId weight,
                      std::int64_t groups) {
  // Losses of multi-token prediction have the head's weight.
  for (QuantisedWeight const& kept : builder.program().quantised_weights) {
    if (kept.weight == weight) return {.rows = kept.rows, .columns = kept.columns};
  }
  Quantisation const& quantisation = builder.shape().quantisation;
  RecipeTraits const& recipe = quantisation.traits();
  ScaledMatrix const matrix = matrix_of(builder.tensor(weight), groups);
  auto const copy = [&](std::string_view part, bool by_columns) {
    TensorId const made = make_copy(builder, {owner, part}, weight, recipe.elements,
                                    scale_layout(recipe, ScaledRole::weight, matrix, by_columns));
    Tensor& tensor = builder.program().tensors.back();
    tensor.category = Category::parameters;
    tensor.lifetime = Lifetime::job;
    return made;
  };
  Quantised copies;
  copies.rows = copy("weight_rows", false);
  if (quantisation.keeps_two_copies()) copies.columns = copy("weight_columns", true);
  builder.program().quantised_weights.push_back({weight, copies.rows, copies.columns});
  return copies;
}

Quantised gathered_copy(ProgramBuilder& builder, std::string_view owner, TensorId weight) {
  RecipeTraits const& recipe = builder.shape().quantisation.traits();
  Shape const shape = builder.tensor(weight).shape;  // a copy: view() moves the tensors
  TensorId const rows = builder.view({owner, "weight_rows"}, weight, shape, {shape[1], 1}, 0);
  Tensor& made = builder.program().tensors.back();
  made.type = recipe.elements;
  made.scales = {
      .recipe = recipe.recipe, .of_weight = true, .bytes = element_size(recipe.scale_type)};
  builder.program().low_weights.push_back(weight);
  return {.rows = rows};
}

}  // namespace stagecraft
