#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/program/quantisation.hpp"

namespace stagecraft {

/// Whether an accelerator has products with the scales of a recipe. Those with one scale for a
/// tensor need no more than a rate in 8 bits.
inline bool has_recipe(Accelerator const& accelerator, RecipeTraits const& recipe) {
  return accelerator.peak.value.fp8 && (recipe.scaling == Scaling::tensor ||
                                        accelerator.compute_capability.value >= recipe.capability);
}

}  // namespace stagecraft
