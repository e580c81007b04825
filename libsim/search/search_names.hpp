#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "libsim/search/plan_search.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

// Recompute policies as a search names them, in options and in output.
template <>
struct EnumNames<RecomputeKind> {
  static constexpr std::array<std::pair<RecomputeKind, std::string_view>, 7> all{
      {{RecomputeKind::none, "none"},
       {RecomputeKind::selective, "selective"},
       {RecomputeKind::modules, "modules"},
       {RecomputeKind::uniform, "uniform"},
       {RecomputeKind::block, "block"},
       {RecomputeKind::per_stage, "per_stage"},
       {RecomputeKind::window, "window"}}};
};

// Why a kind has no time, as JSON says it.
template <>
struct EnumNames<NoTime> {
  static constexpr std::array<std::pair<NoTime, std::string_view>, 4> all{
      {{NoTime::has_time, "has_time"},
       {NoTime::is_slow, "too_slow"},
       {NoTime::fits_nowhere, "does_not_fit"},
       {NoTime::has_no_plan, "no_plan"}}};
};

}  // namespace stagecraft
