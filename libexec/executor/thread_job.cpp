#include "libexec/executor/thread_job.hpp"

#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "libexec/comm/device_communication.hpp"
#include "libexec/comm/thread_world.hpp"
#include "libexec/executor/rank_run.hpp"

namespace stagecraft {

Execution execute_on_threads(TrainingPlan const& plan,
                             ExecutionParts const& parts,
                             ExecutionOptions const& options) {
  if (options.is_virtual && parts.costs == nullptr) {
    throw std::invalid_argument{"the virtual clock needs durations of communication"};
  }
  WallClock wall;
  VirtualClock own{options.kernel_threads == 1};
  JobHealth health;
  JobClock const& clock = options.is_virtual ? static_cast<JobClock const&>(own) : wall;
  auto const transport =
      make_local_transport(parts.device, options.is_virtual ? &own.machine() : nullptr);
  ThreadWorld world{plan, *transport, clock, health};

  auto const ranks = static_cast<std::size_t>(world_size(plan.config.parallel));
  std::vector<RankOutcome> outcomes(ranks);
  std::mutex first_mutex;
  std::exception_ptr first_error;
  auto const run = [&](std::size_t i) {
    RankId const rank{static_cast<int>(i)};
    try {
      RankClock rank_clock = options.is_virtual ? RankClock{own} : RankClock{wall};
      auto const communicator = world.communicator(rank);
      auto const restart = [&] {
        if (rank != RankId{0}) return;
        wall.restart();
        own.restart();
      };
      outcomes[i] = run_rank(plan, rank, parts, options, *communicator, rank_clock, restart);
    } catch (PeerFailure const&) {
      // The rank that failed has reported why.
    } catch (std::exception const& error) {
      std::scoped_lock const lock{first_mutex};
      if (!first_error) first_error = std::current_exception();
      health.fail(rank, error.what());  // also if it failed before it could report it
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(ranks);
    for (std::size_t i = 0; i < ranks; ++i) threads.emplace_back(run, i);
  }
  if (first_error) std::rethrow_exception(first_error);

  Execution execution;
  execution.steps = outcomes.front().steps;
  for (RankOutcome& outcome : outcomes) {
    execution.ranks.push_back(outcome.report);
    if (options.traces) execution.traces.push_back(std::move(outcome.trace));
  }
  return execution;
}

}  // namespace stagecraft
