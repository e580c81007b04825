#include "libexec/executor/process_job.hpp"

#include <chrono>
#include <memory>
#include <stdexcept>

#include "libexec/executor/outcome_codec.hpp"
#include "libexec/executor/rank_run.hpp"

namespace stagecraft {
namespace {

using std::chrono::nanoseconds;

/// Starts the clocks of all processes at rank 0's current time.
class ClockStart {
 public:
  ClockStart(RankId rank, ProcessWorld& world, GroupId job, WallClock& clock)
      : is_first_{rank == RankId{0}}, offset_{world.clock_offset()}, job_{job}, clock_{clock} {}

  void restart(Communicator& communicator) {
    nanoseconds const now = std::chrono::steady_clock::now().time_since_epoch();
    std::int64_t start = is_first_ ? now.count() : 0;  // the sum over all ranks is rank 0's time
    auto const ticket = communicator.start({.group = job_,
                                            .type = ElementType::i64,
                                            .source = &start,
                                            .target = &start,
                                            .elements = 1,
                                            .in_host_memory = true});
    communicator.finish(job_, ticket);
    clock_.restart(WallClock::Instant{nanoseconds{start} - offset_});
  }

 private:
  bool is_first_;
  nanoseconds offset_;
  GroupId job_;
  WallClock& clock_;
};

}  // namespace

Execution execute_on_processes(TrainingPlan const& plan,
                               ExecutionParts const& parts,
                               ExecutionOptions const& options,
                               JobSession& session,
                               MakeProcessWorld const& make_world) {
  if (options.is_virtual) throw std::invalid_argument{"the virtual clock needs ranks as threads"};
  if (session.size() != plan.groups.ranks()) {
    throw std::invalid_argument{"the job does not have one process per rank of the plan"};
  }
  WallClock wall;
  std::unique_ptr<ProcessWorld> const world = make_world(plan, wall);
  ClockStart start{session.rank(), *world, plan.roles.job, wall};
  Communicator& communicator = world->communicator();
  RankClock clock{wall};
  RankOutcome const outcome = run_rank(plan, session.rank(), parts, options, communicator, clock,
                                       [&] { start.restart(communicator); });
  Execution execution;
  execution.steps = outcome.steps;
  for (std::vector<std::int64_t> const& numbers : world->gather(encode(outcome))) {
    RankOutcome rank = decode_outcome(numbers);
    execution.ranks.push_back(rank.report);
    if (options.traces) execution.traces.push_back(std::move(rank.trace));
  }
  return execution;
}

}  // namespace stagecraft
