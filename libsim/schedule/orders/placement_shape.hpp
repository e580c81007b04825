#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// How the chunks of a model lie on the stages; make_placement() in placement.hpp makes each.
enum class PlacementShape : std::uint8_t {
  loop,           ///< chunk by chunk over all stages
  v,              ///< two chunks per stage, there and back
  bidirectional,  ///< two copies of the model in opposite directions
};

template <>
struct EnumNames<PlacementShape> {
  static constexpr std::array<std::pair<PlacementShape, std::string_view>, 3> all{
      {{PlacementShape::loop, "loop"},
       {PlacementShape::v, "v"},
       {PlacementShape::bidirectional, "bidirectional"}}};
};

}  // namespace stagecraft
