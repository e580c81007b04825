#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/program/quantisation.hpp"

namespace stagecraft {

/// The peak of products whose operands are of a quantised type; nothing if there are none.
inline std::optional<FlopsPerSecond> const& low_peak(MatrixPeaks const& peaks, ElementType type) {
  return element_bits(type) == 4 ? peaks.fp4 : peaks.fp8;
}

/// Whether an accelerator has products with the scales of a recipe. Those with one scale for a
/// tensor need no more than a rate.
inline bool has_recipe(Accelerator const& accelerator, RecipeTraits const& recipe) {
  return low_peak(accelerator.peak.value, recipe.elements) &&
         (recipe.scaling == Scaling::tensor ||
          accelerator.compute_capability.value >= recipe.capability);
}

}  // namespace stagecraft
