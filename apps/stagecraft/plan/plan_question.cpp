#include "apps/stagecraft/plan/plan_question.hpp"

#include "libsim/config/problem.hpp"
#include "libsim/program/quantisation.hpp"

namespace stagecraft {

std::string in_recipe(PlanOptions const& options) {
  Recipe const recipe = options.request.base.low_precision.recipe;
  return recipe == Recipe::none ? "" : " in " + bits_text(recipe);
}

std::string name_of_cluster(PlanOptions const& options) {
  return std::to_string(options.request.gpus) + " x " + printable(options.request.system.name) +
         in_recipe(options);
}

}  // namespace stagecraft
