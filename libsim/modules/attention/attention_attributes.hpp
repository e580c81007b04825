#pragma once

#include <cmath>
#include <string_view>

#include "libsim/program/program_builder.hpp"

/// What the ops of core attention have in common.
namespace stagecraft {

/// The part of a layer to which they belong.
inline constexpr std::string_view core_attention = "core_attention";

inline bool drops_probabilities(ProgramBuilder const& builder) {
  return attention_dropout(builder.shape().model) > 0;
}

/// The dropout of the probabilities; heads are split over the tensor group.
inline DropoutAttributes probability_dropout(ProgramBuilder const& builder) {
  BlockShape const& shape = builder.shape();
  return {.site = DropoutSite::attention,
          .rate = attention_dropout(shape.model),
          .shards = shape.tensor};
}

inline double score_scale(ProgramBuilder const& builder) {
  return 1.0 / std::sqrt(static_cast<double>(builder.shape().model.head_dim));
}

}  // namespace stagecraft
