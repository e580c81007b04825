#include "apps/stagecraft/plan/plan_question.hpp"

#include "libsim/config/problem.hpp"

namespace stagecraft {

std::string name_of_cluster(PlanOptions const& options) {
  return std::to_string(options.request.gpus) + " x " + printable(options.request.system.name);
}

}  // namespace stagecraft
