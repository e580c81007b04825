#include "apps/stagecraft/schedule/schedule_output.hpp"

#include "libsim/host/schemas.hpp"
#include "libsim/schedule/orders/order_file.hpp"
#include "libsim/schedule/orders/order_text.hpp"

namespace stagecraft {

nlohmann::ordered_json to_json(AskedSchedule const& asked) {
  PipelineOrder const& order = asked.order;
  PlayedOrder const& played = asked.played;
  using Json = nlohmann::ordered_json;
  Json orders = Json::array();
  Json in_flight = Json::array();
  Json until_input_gradient = Json::array();
  Json starts = Json::array();
  Json ends = Json::array();
  for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
    orders.push_back(order_text(order.stages[stage]));
    in_flight.push_back(most_in_flight(order, stage, InFlight::until_weight_gradient));
    until_input_gradient.push_back(most_in_flight(order, stage, InFlight::until_input_gradient));
    starts.push_back(played.in_units(played.stages[stage].start));
    ends.push_back(played.in_units(played.stages[stage].end));
  }
  Json document{{"schema", schedule_schema},
                {"orders", orders},
                {"placement", name_of(shape_of(order.placement))},
                {"makespan", played.in_units(played.makespan)},
                {"span", played.in_units(span_of(played))},
                {"ideal", played.in_units(ideal_time(played))},
                {"bubble_fraction", bubble_fraction(played)},
                {"stage_start", starts},
                {"stage_end", ends},
                {"in_flight_chunks", in_flight},
                {"in_flight_until_input_gradient", until_input_gradient}};
  if (asked.found) {
    document["lower_bound"] = asked.found->lower_bound;
    document["iterations"] = asked.found->iterations;
    document["ended_by"] = name_of(asked.found->ended_by);
  }
  return document;
}

}  // namespace stagecraft
