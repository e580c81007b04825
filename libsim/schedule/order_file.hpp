#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/schedule/pipeline_order.hpp"
#include "libsim/units/enum_names.hpp"

namespace stagecraft {

/// The shape in which an order's chunks lie on its stages; see placement.hpp.
enum class PlacementShape : std::uint8_t { loop, v, bidirectional };

template <>
struct EnumNames<PlacementShape> {
  static constexpr std::array<std::pair<PlacementShape, std::string_view>, 3> all{
      {{PlacementShape::loop, "loop"},
       {PlacementShape::v, "v"},
       {PlacementShape::bidirectional, "bidirectional"}}};
};

/// The shape of a placement that round_placement(), v_placement() or bidirectional_placement()
/// made.
PlacementShape shape_of(Placement const& placement);

/// Reads an order from a JSON file, as `stagecraft schedule --json` prints it: `orders`, a list of
/// one text per stage (see order_text()), and `placement`, without which it is loop. Other keys are
/// ignored. The number of microbatches is that of the largest plus one.
/// \throws ScheduleError  if there is no such file or it has no orders; check_order() is not called.
PipelineOrder read_order_file(std::filesystem::path const& path);

/// The order of such texts, one per stage.
/// \throws ScheduleError  likewise. Pre: there is a stage.
PipelineOrder order_of_texts(std::vector<std::string> const& stages, PlacementShape shape);

}  // namespace stagecraft
