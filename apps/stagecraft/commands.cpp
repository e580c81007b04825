#include "apps/stagecraft/commands.hpp"

namespace stagecraft {

Program planning_program() {
  return {
      .name = "stagecraft",
      .purpose = "Predicts memory and iteration time of pipeline-parallel Transformer training.",
      .examples = R"(  stagecraft simulate configs/paper/175b-present.yaml
  stagecraft schedule --schedule interleaved -p 4 -n 8 -m 2
)",
      .commands = {simulate_command(), explain_command(), plan_command(), sweep_command(),
                   validate_command(), fit_command(), reproduce_command(), layer_command(),
                   schedule_command(), compare_command(), report_command(), export_command(),
                   import_command(), allocator_command(), system_command(), software_command()},
      .features = program_features};
}

}  // namespace stagecraft
