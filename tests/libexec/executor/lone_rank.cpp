#include "tests/libexec/executor/lone_rank.hpp"

#include "libexec/backends/cpu_backend.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft {

Execution execute_alone(TrainingPlan const& plan,
                        RankId rank,
                        CommunicationCosts const& costs,
                        ExecutionOptions const& options) {
  auto const tokens = synthetic_tokens(plan.config.model.vocabulary, 7);
  ExecutionParts const parts{
      .make_backend = [](KernelNeeds const& needs) { return make_cpu_backend(needs, {}); },
      .tokens = tokens.get(),
      .costs = &costs};
  return execute_solo(plan, rank, parts, options);
}

}  // namespace stagecraft
