#include "libexec/executor/solo_job.hpp"

#include <stdexcept>
#include <utility>

#include "libexec/comm/solo_communicator.hpp"
#include "libexec/executor/executable.hpp"
#include "libexec/executor/kernel_needs.hpp"
#include "libexec/executor/rank_run.hpp"

namespace stagecraft {

Execution execute_solo(TrainingPlan const& plan,
                       RankId rank,
                       ExecutionParts const& parts,
                       ExecutionOptions const& options) {
  require_executable_alone(plan.config);
  if (parts.costs == nullptr)
    throw std::invalid_argument{"a rank that runs alone needs durations of communication"};
  VirtualClock clock{options.kernel_threads == 1};
  // The communicator needs the device, too, so it is made before the rank takes it over.
  std::unique_ptr<Backend> backend = parts.make_backend(kernel_needs(plan, rank));
  SoloCommunicator communicator{plan, rank, *backend, clock};
  ExecutionParts own = parts;
  own.make_backend = [&backend](KernelNeeds const&) { return std::move(backend); };
  ExecutionOptions alone = options;
  alone.is_virtual = true;
  alone.values_matter = false;
  alone.reporting_rank = rank;
  RankClock rank_clock{clock};
  RankOutcome outcome =
      run_rank(plan, rank, own, alone, communicator, rank_clock, [&clock] { clock.restart(); });
  Execution execution;
  execution.steps = outcome.steps;
  execution.ranks.push_back(outcome.report);
  if (options.traces) execution.traces.push_back(std::move(outcome.trace));
  return execution;
}

}  // namespace stagecraft
