#include "libsim/report/causal_mfu.hpp"

namespace stagecraft {

double mfu_causal(Simulation const& simulation, TrainingConfig const& config) {
  ModelConfig const& model = config.model;
  auto const width = static_cast<double>(model.heads) * static_cast<double>(model.head_dim);
  auto const sequence = static_cast<double>(model.sequence);
  auto const sequences = static_cast<double>(config.batch.global);
  // 4 s^2 h a sequence and layer forward, twice that backward; half of all is left out.
  double const left_out =
      6 * sequences * static_cast<double>(model.layers) * sequence * sequence * width;
  return simulation.mfu * (1 - left_out / simulation.model_flops);
}

}  // namespace stagecraft
