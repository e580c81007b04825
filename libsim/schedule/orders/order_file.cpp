#include "libsim/schedule/orders/order_file.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

nlohmann::json parse(std::filesystem::path const& path) {
  std::ifstream file{path};
  if (!file) {
    throw ScheduleError{"order", "no file '" + path.string() + "'", "a JSON file"};
  }
  try {
    return nlohmann::json::parse(file);
  } catch (nlohmann::json::parse_error const& error) {
    throw ScheduleError{
        "order",
        "'" + path.string() + "', which is not JSON (at byte " + std::to_string(error.byte) + ")",
        "an object with `orders`"};
  }
}

PlacementShape read_shape(nlohmann::json const& document) {
  auto const found = document.find("placement");
  if (found == document.end()) return PlacementShape::loop;
  auto const shape =
      found->is_string() ? value_named<PlacementShape>(found->get<std::string>()) : std::nullopt;
  if (!shape) {
    throw ScheduleError{"placement", found->dump(), accepted_names<PlacementShape>()};
  }
  return *shape;
}

}  // namespace

PipelineOrder read_order_file(std::filesystem::path const& path) {
  nlohmann::json const document = parse(path);
  if (!document.is_object() || !document.contains("orders") || !document.at("orders").is_array() ||
      document.at("orders").empty()) {
    throw ScheduleError{"order", "no list `orders` in '" + path.string() + "'",
                        "one text per stage, like \"F0.0 I0.0 W0.0\""};
  }
  std::vector<std::string> texts;
  for (auto const& stage : document.at("orders")) {
    if (!stage.is_string()) {
      throw ScheduleError{"order", stage.dump().substr(0, 40) + " in `orders`",
                          "one text per stage"};
    }
    texts.push_back(stage.get<std::string>());
  }
  return order_of_texts(texts, read_shape(document));
}

PipelineOrder order_of_texts(std::vector<std::string> const& stages, PlacementShape shape) {
  PipelineOrder order;
  int chunks = 1;
  std::size_t tasks = 0;
  for (std::string const& stage : stages) {
    order.stages.push_back(read_order_text(stage));
    tasks += order.stages.back().size();
    for (OrderTask const& task : order.stages.back()) {
      chunks = std::max(chunks, task.run.chunk.value() + 1);
      order.microbatches = std::max(order.microbatches, task.run.microbatch.value() + 1);
    }
  }
  // With fewer tasks, some microbatch or chunk would have none. Thus a wrong number does not take
  // all memory.
  if (static_cast<std::size_t>(order.microbatches) * static_cast<std::size_t>(chunks) > tasks) {
    throw ScheduleError{"order",
                        "microbatch " + std::to_string(order.microbatches - 1) + " and chunk " +
                            std::to_string(chunks - 1) + " among " + std::to_string(tasks) +
                            " tasks",
                        "F, and B or I and W, of every microbatch in every chunk"};
  }
  if (shape != PlacementShape::loop && chunks > 2) {
    throw ScheduleError{"order", "chunk " + std::to_string(chunks - 1),
                        "0 and 1, as the placement is " + std::string{name_of(shape)}};
  }
  order.placement = make_placement(shape, static_cast<int>(stages.size()), chunks);
  return order;
}

}  // namespace stagecraft
