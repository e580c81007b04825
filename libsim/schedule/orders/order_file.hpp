#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// Reads an order from a JSON file, as `stagecraft schedule --json` prints it: `orders`, a list of
/// one text per stage (see order_text()), and `placement`, by default loop. Other keys are ignored.
/// The number of microbatches is the largest microbatch plus one.
/// \throws ScheduleError  if there is no such file or it has no orders; check_order() is not called.
PipelineOrder read_order_file(std::filesystem::path const& path);

/// The order of texts as in `orders`, one per stage.
/// \throws ScheduleError  if a text is not one of order_text(), or if microbatches and chunks do
///         not fit the number of tasks or the shape. Pre: there is a stage.
PipelineOrder order_of_texts(std::vector<std::string> const& stages, PlacementShape shape);

}  // namespace stagecraft
