#include "apps/stagecraft/schedule_output.hpp"

#include "libsim/schedule/order_file.hpp"
#include "libsim/schedule/order_text.hpp"

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
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
    orders.push_back(order_text(order.ranks[rank]));
    in_flight.push_back(most_in_flight(order, rank, InFlight::until_weight_gradient));
    until_input_gradient.push_back(most_in_flight(order, rank, InFlight::until_input_gradient));
    starts.push_back(played.in_units(played.ranks[rank].start));
    ends.push_back(played.in_units(played.ranks[rank].end));
  }
  Json document{{"schema", "stagecraft.schedule/1"},
                {"orders", orders},
                {"placement", name_of(shape_of(order.placement))},
                {"makespan", played.in_units(played.makespan)},
                {"span", played.in_units(span_of(played))},
                {"ideal", played.in_units(ideal_time(played))},
                {"bubble_fraction", bubble_fraction(played)},
                {"rank_start", starts},
                {"rank_end", ends},
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
