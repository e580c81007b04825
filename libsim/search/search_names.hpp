#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "libsim/search/search_request.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

// Recompute policies as a search names them, in options and in output.
template <>
struct EnumNames<RecomputeKind> {
  static constexpr std::array<std::pair<RecomputeKind, std::string_view>, 6> all{
      {{RecomputeKind::none, "none"},
       {RecomputeKind::selective, "selective"},
       {RecomputeKind::uniform, "uniform"},
       {RecomputeKind::block, "block"},
       {RecomputeKind::per_stage, "per_stage"},
       {RecomputeKind::window, "window"}}};
};

}  // namespace stagecraft
