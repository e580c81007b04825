#include "libsim/report/causal_mfu.hpp"

#include "libsim/modules/blocks.hpp"

namespace stagecraft {

double mfu_causal(Simulation const& simulation, TrainingConfig const& config) {
  double const attention = static_cast<double>(config.batch.global) *
                           static_cast<double>(attention_flops_per_sequence(config.model));
  return simulation.mfu * (1 - attention / 2 / simulation.model_flops);
}

}  // namespace stagecraft
