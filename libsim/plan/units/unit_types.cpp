#include "libsim/plan/units/unit_types.hpp"

#include "libsim/program/quantisation.hpp"

namespace stagecraft {
namespace {

ElementType type_of(UnitType type, ElementType automatic) {
  switch (type) {
    case UnitType::fp32:
      return ElementType::f32;
    case UnitType::bf16:
      return ElementType::bf16;
    case UnitType::fp16:
      return ElementType::f16;
    case UnitType::low:
    case UnitType::automatic:
      break;
  }
  return automatic;
}

}  // namespace

std::int64_t sharded_elements(Shape const& shape, int ranks, bool cuts_rows) {
  return shard_of(shape.elements(), ranks, cuts_rows ? 1 : shape.elements() / shape[0]);
}

UnitTypes unit_types(TrainingConfig const& config) {
  Precision const precision = config.model.precision;
  Sharding const& sharding = config.sharding;
  ElementType const stored =
      type_of(sharding.stored_dtype, sharding.traits().has_master ? activation_type(precision)
                                                                  : accumulation_type(precision));
  ElementType const gradients = !sharding.traits().has_main_gradients ? stored
                                : config.memory.gradient_dtype == StateType::fp32
                                    ? accumulation_type(precision)
                                    : activation_type(precision);
  RecipeTraits const* const recipe = find_recipe(config.low_precision.recipe);
  return {.stored = stored,
          .gathered = type_of(sharding.parameter_dtype, activation_type(precision)),
          .low = recipe == nullptr ? ElementType::f8_e4m3 : recipe->elements,
          .reduced = type_of(sharding.reduce_dtype, gradients),
          .gradients = gradients};
}

}  // namespace stagecraft
