#include "libexec/executor/job.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "libexec/comm/collectives.hpp"
#include "libexec/comm/solo_communicator.hpp"
#include "libexec/comm/thread_world.hpp"
#include "libexec/executor/executable.hpp"
#include "libexec/executor/rank_context.hpp"

namespace stagecraft {
namespace {

/// Reads numbers one after another.
class Numbers {
 public:
  explicit Numbers(std::vector<std::int64_t> const& all) : all_{all} {}

  std::int64_t next() { return all_[take(1)]; }
  TraceColumn column(std::size_t rows) {
    auto const first = all_.begin() + static_cast<std::ptrdiff_t>(take(rows));
    return {first, first + static_cast<std::ptrdiff_t>(rows)};
  }
  bool is_over() const { return at_ == all_.size(); }

 private:
  std::size_t take(std::size_t count) {
    if (count > all_.size() - at_) throw std::logic_error{"a rank's outcome is cut short"};
    at_ += count;
    return at_ - count;
  }
  std::vector<std::int64_t> const& all_;
  std::size_t at_ = 0;
};

/// Encodes a rank's outcome as numbers for another process of the same program, without its steps,
/// which are the same on all ranks.
std::vector<std::int64_t> encode(RankOutcome const& outcome) {
  RankReport const& report = outcome.report;
  RankTrace const& trace = outcome.trace;
  std::vector<std::int64_t> numbers{report.rank.value(), report.stage.value(),
                                    report.activation_peak};
  for (CategoryRow const& row : categories) numbers.push_back(report.at_peak[row.category]);
  DeviceMemoryUse const device = report.device.value_or(DeviceMemoryUse{});
  numbers.insert(numbers.end(), {report.device ? 1 : 0, device.before.count(),
                                 device.pool_peak.count(), device.after.count()});
  numbers.push_back(report.reserved.value_or(-1));
  numbers.push_back(static_cast<std::int64_t>(trace.ops.rows()));
  numbers.push_back(static_cast<std::int64_t>(trace.memory.rows()));
  numbers.push_back(static_cast<std::int64_t>(trace.memory.reserved.size()));
  auto const append = [&](TraceColumn const& column) {
    numbers.insert(numbers.end(), column.begin(), column.end());
  };
  for (OpColumn const& column : op_columns) append(trace.ops.*column.column);
  append(trace.memory.time);
  for (TraceColumn const& column : trace.memory.bytes) append(column);
  append(trace.memory.reserved);
  return numbers;
}

/// The inverse. \throws std::logic_error  if encode() cannot have made the numbers.
RankOutcome decode_outcome(std::vector<std::int64_t> const& all) {
  Numbers numbers{all};
  RankOutcome outcome;
  RankReport& report = outcome.report;
  report.rank = RankId{static_cast<int>(numbers.next())};
  report.stage = StageId{static_cast<int>(numbers.next())};
  report.activation_peak = numbers.next();
  for (CategoryRow const& row : categories) report.at_peak[row.category] = numbers.next();
  bool const has_device = numbers.next() != 0;
  DeviceMemoryUse device;
  device.before = Bytes{numbers.next()};
  device.pool_peak = Bytes{numbers.next()};
  device.after = Bytes{numbers.next()};
  if (has_device) report.device = device;
  std::int64_t const reserved = numbers.next();
  if (reserved >= 0) report.reserved = reserved;
  RankTrace& trace = outcome.trace;
  trace.rank = report.rank.value();
  trace.stage = report.stage.value();
  auto const ops = static_cast<std::size_t>(numbers.next());
  auto const changes = static_cast<std::size_t>(numbers.next());
  auto const with_reserved = static_cast<std::size_t>(numbers.next());
  for (OpColumn const& column : op_columns) trace.ops.*column.column = numbers.column(ops);
  trace.memory.time = numbers.column(changes);
  for (TraceColumn& column : trace.memory.bytes) column = numbers.column(changes);
  trace.memory.reserved = numbers.column(with_reserved);
  if (!numbers.is_over()) throw std::logic_error{"a rank's outcome is too long"};
  return outcome;
}

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
