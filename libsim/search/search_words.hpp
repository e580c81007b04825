#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "libsim/config/words.hpp"
#include "libsim/search/search_request.hpp"

namespace stagecraft {

// Recompute policies as a search names them, in options and in output.
template <>
struct Words<RecomputeKind> {
  static constexpr std::array<std::pair<RecomputeKind, std::string_view>, 6> all{
      {{RecomputeKind::none, "none"},
       {RecomputeKind::selective, "selective"},
       {RecomputeKind::uniform, "uniform"},
       {RecomputeKind::block, "block"},
       {RecomputeKind::per_stage, "per_stage"},
       {RecomputeKind::window, "window"}}};
};

}  // namespace stagecraft
