#include "libsim/report/quantised_summary.hpp"

#include <algorithm>

#include "libsim/units/quantity.hpp"

namespace stagecraft {

std::string quantised_text(TrainingPlan const& plan) {
  Quantisation const& quantisation = plan.shape.quantisation;
  if (!quantisation.is_on()) return "";
  StagePlan const& most =
      *std::ranges::max_element(plan.stages, {}, &StagePlan::quantised_parameters);
  if (most.quantised_parameters == 0) return "";
  Bytes const copies = most.state_of(step_tensor::quantised_weights).bytes();
  Bytes const transposed{quantisation.has_two_copies() ? copies.count() / 2 : 0};
  std::string text = "weights in " + bits_text(quantisation.recipe) + " are kept " +
                     (quantisation.replaces_weights ? "in place of" : "beside") +
                     " the parameters: up to " + readable_text(copies) + " per accelerator";
  if (transposed.count() > 0) text += ", " + readable_text(transposed) + " of it transposed";
  return text + "\n";
}

}  // namespace stagecraft
