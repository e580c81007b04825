#include "libsim/schedule/orders/pipeline_order.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft {

MicrobatchRange microbatches_of_copy(PipelineOrder const& order, int copy) {
  int const share = order.microbatches / order.placement.copies();
  return {MicrobatchId{copy * share}, MicrobatchId{(copy + 1) * share}};
}

int most_in_flight(PipelineOrder const& order, std::size_t stage, InFlight until) {
  int in_flight = 0;
  int most = 0;
  int ended_with_pair = 0;
  for (OrderTask const& task : order.stages[stage]) {
    Pass const pass = task.run.pass;
    if (pass == Pass::forward) most = std::max(most, ++in_flight);
    bool const ends =
        until == InFlight::until_input_gradient ? gives_gradient(pass) : ends_in_flight(pass);
    if (ends) ++ended_with_pair;
    if (task.is_paired) continue;
    in_flight -= ended_with_pair;
    ended_with_pair = 0;
  }
  return most;
}

bool splits_backward(PipelineOrder const& order) {
  return std::any_of(order.stages.begin(), order.stages.end(), [](auto const& tasks) {
    return std::any_of(tasks.begin(), tasks.end(),
                       [](OrderTask const& task) { return task.run.pass == Pass::input_gradient; });
  });
}

PipelineOrder with_fused_backwards(PipelineOrder order) {
  for (std::vector<OrderTask>& tasks : order.stages) {
    std::vector<OrderTask> fused;
    for (OrderTask const& task : tasks) {
      bool const ends_one = task.run.pass == Pass::weight_gradient && !fused.empty() &&
                            !fused.back().is_paired &&
                            fused.back().run.pass == Pass::input_gradient &&
                            fused.back().run.microbatch == task.run.microbatch &&
                            fused.back().run.chunk == task.run.chunk;
      if (ends_one) {
        fused.back().run.pass = Pass::backward;
      } else {
        fused.push_back(task);
      }
    }
    tasks = std::move(fused);
  }
  return order;
}

}  // namespace stagecraft
