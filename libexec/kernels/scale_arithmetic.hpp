#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "libexec/kernels/low_formats.hpp"
#include "libsim/model/low_precision.hpp"

/// How the scale of a block follows from its largest element, by recipe.
namespace stagecraft {

/// The scale of one block.
struct BlockScale {
  float factor = 1;         ///< elements are multiplied by it before they are cast
  float inverse = 1;        ///< kept if scales are f32
  std::uint8_t code = 127;  ///< kept if scales have a byte
};

/// `x` without its fraction.
inline float power_of_two_below(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xFF800000U);
}

/// The factor by which the largest magnitude `amax` becomes the format's largest number.
/// Source: Transformer Engine, compute_scale_from_amax, with epsilon 0.
inline float factor_of(float amax, float largest) {
  if (!(amax > 0) || std::isinf(amax)) return 1;
  float const factor = largest / amax;
  return std::isinf(factor) ? std::numeric_limits<float>::max() : factor;
}

/// What `nvfp4` keeps of a whole tensor: the number by which scales in E4M3 are multiplied, and its
/// inverse.
/// Source: Transformer Engine, pytorch/custom_recipes/reference_nvfp4.py,
/// _quantize_blockwise_reference.
struct TensorScale {
  float encode = 1;
  float decode = 1;
};

inline TensorScale tensor_scale(float amax) {
  float encode = std::min(e4m3.largest * e2m1.largest / amax, std::numeric_limits<float>::max());
  if (encode == 0) encode = 1;
  return {.encode = encode, .decode = 1 / encode};
}

/// The scale of a block whose largest magnitude is `amax`, of elements whose largest number is
/// `largest`. `tensor`: nvfp4 only.
///
/// `delayed` and `current` divide; `blockwise` (Transformer Engine, common/recipe/__init__.py,
/// Float8BlockScaling) and `rowwise` (torchao, float8/float8_utils.py, amax_to_scale with
/// round_scales_to_power_of_2) round the factor down to a power of two; `mxfp8` rounds the
/// inverse up to one (Transformer Engine, common/cast/mxfp8); `nvfp4` as TensorScale.
inline BlockScale block_scale(Recipe recipe,
                              float amax,
                              float largest,
                              TensorScale const& tensor = {}) {
  BlockScale scale;
  switch (recipe) {
    case Recipe::none:
      return scale;
    case Recipe::delayed:
    case Recipe::current:
      scale.factor = factor_of(amax, largest);
      break;
    case Recipe::blockwise:
      scale.factor = power_of_two_below(factor_of(amax, largest));
      break;
    case Recipe::rowwise: {
      constexpr double least = 1e-12;
      double const factor = largest / std::max(static_cast<double>(amax), least);
      scale.factor = power_of_two_below(static_cast<float>(factor));
      break;
    }
    case Recipe::mxfp8:
      scale.code = encode_e8m0_up(amax * (1 / largest));
      scale.factor = decode_e8m0(scale.code == 255 ? 255U : 254U - scale.code);
      return scale;
    case Recipe::nvfp4: {
      float const wanted = amax * (tensor.encode * (1 / largest));
      scale.code = encode<e4m3>(wanted);
      float const kept = numbers_of<e4m3>[scale.code];
      scale.factor = std::min(1 / (kept * tensor.decode), std::numeric_limits<float>::max());
      return scale;
    }
  }
  scale.inverse = 1 / scale.factor;
  return scale;
}

}  // namespace stagecraft
