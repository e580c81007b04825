#include "libsim/report/schedule_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "libsim/schedule/orders/order_text.hpp"

namespace stagecraft {

namespace {

/// The order of a stage, cut between two computations if it is longer than `width`.
std::string cut_order(std::vector<OrderTask> const& tasks, std::size_t width) {
  std::string order = order_text(tasks);
  if (order.size() <= width) return order;
  std::size_t const end = order.rfind(' ', width - 4);
  return order.substr(0, end == std::string::npos ? 0 : end) + " ...";
}

bool has_pass(PipelineOrder const& order, Pass pass) {
  return std::any_of(order.stages.begin(), order.stages.end(), [&](auto const& tasks) {
    return std::any_of(tasks.begin(), tasks.end(),
                       [&](OrderTask const& task) { return task.run.pass == pass; });
  });
}

/// "forward (F) or backward (B)", of the passes that the order has.
std::string parts_text(PipelineOrder const& order) {
  struct Name {
    Pass pass;
    char const* text;
  };
  std::vector<std::string> names;
  for (auto const& [pass, text] :
       {Name{Pass::forward, "forward (F)"}, Name{Pass::recompute, "recompute (R)"},
        Name{Pass::backward, "backward (B)"}, Name{Pass::input_gradient, "input gradient (I)"},
        Name{Pass::weight_gradient, "weight gradient (W)"}}) {
    if (has_pass(order, pass)) names.emplace_back(text);
  }
  std::string line = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) {
    line += (i + 1 == names.size() ? " or " : ", ") + names[i];
  }
  return line;
}

std::string makespan_text(PlayedOrder const& played, bool is_split) {
  std::string text = fmt::format("makespan {:g}", played.in_units(played.makespan));
  if (is_split) {
    text += fmt::format(", longest span of a stage {:g}", played.in_units(span_of(played)));
  }
  return text + fmt::format(", ideal {:g}, bubble {:.4g} % of ideal\n\n",
                            played.in_units(ideal_time(played)), 100 * bubble_fraction(played));
}

}  // namespace

std::string schedule_tables(std::string const& title,
                            PipelineOrder const& order,
                            PlayedOrder const& played,
                            int width) {
  bool const is_split = has_pass(order, Pass::weight_gradient);
  std::string text = title + '\n' + makespan_text(played, is_split) + "stage  in flight" +
                     (is_split ? "  until I" : "") +
                     "        busy    transfer      bubble         end\n";
  for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
    StageRuns const& times = played.stages[stage];
    text += fmt::format("{:>5}{:>11}", stage,
                        most_in_flight(order, stage, InFlight::until_weight_gradient));
    if (is_split) {
      text += fmt::format("{:>9}", most_in_flight(order, stage, InFlight::until_input_gradient));
    }
    for (SimTime const time : {times.busy, times.transfer, times.bubble, times.end}) {
      text += fmt::format("{:>12g}", played.in_units(time));
    }
    text += '\n';
  }
  text += "\nstage  order: " + parts_text(order) + " of microbatch.chunk\n";
  auto const room = static_cast<std::size_t>(std::max(width, 40) - 7);
  for (std::size_t stage = 0; stage < order.stages.size(); ++stage) {
    text += fmt::format("{:>5}  {}\n", stage, cut_order(order.stages[stage], room));
  }
  return text;
}

}  // namespace stagecraft
