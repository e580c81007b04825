#pragma once

#include "libsim/hardware/system.hpp"
#include "libsim/program/quantisation.hpp"

namespace stagecraft {

/// The peak of products whose operands are of a quantised type; nothing if there are none.
inline std::optional<FlopsPerSecond> const& low_peak(MatrixPeaks const& peaks, ElementType type) {
  return element_bits(type) == 4 ? peaks.fp4 : peaks.fp8;
}

/// The peak of products of a precision, with `tf32` of those that read their operands as TF32.
/// Null if there are none.
inline FlopsPerSecond const* matrix_peak(MatrixPeaks const& peaks, Precision precision, bool tf32) {
  if (tf32 && precision == Precision::fp32) return peaks.tf32 ? &*peaks.tf32 : nullptr;
  auto const peak = peaks.find(precision);
  return peak == peaks.end() ? nullptr : &peak->second;
}

/// Whether an accelerator has products with the scales of a recipe. Those with one scale for a
/// tensor need no more than a rate.
inline bool has_recipe(Accelerator const& accelerator, RecipeTraits const& recipe) {
  return low_peak(accelerator.peak.value, recipe.elements) &&
         (recipe.scaling == Scaling::tensor ||
          accelerator.compute_capability.value >= recipe.capability);
}

}  // namespace stagecraft
