#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/comm/communicator.hpp"
#include "libexec/comm/job_session.hpp"
#include "libexec/executor/clocks.hpp"
#include "libexec/executor/rank_executor.hpp"
#include "libexec/executor/token_source.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// The results of one iteration, which are the same on all ranks.
struct StepReport {
  std::int64_t step = 0;     ///< from 0, counted from the first start of the training
  double loss = 0;           ///< all that is trained; nats per token, mean over the global batch
  double gradient_norm = 0;  ///< of all gradients, before clipping
  double seconds = 0;        ///< of the slowest rank
  bool was_skipped = false;  ///< a gradient was infinite, so no parameter was changed
  /// The part of the loss that is of the next tokens, if routers or modules of multi-token
  /// prediction add to it.
  std::optional<double> next_token_loss{};
};

/// The peak memory of one rank.
struct RankReport {
  RankId rank{};
  StageId stage{};
  CategoryBytes at_peak;  ///< at the first instant of the largest sum, workspace added
  std::int64_t activation_peak = 0;
  std::optional<DeviceMemoryUse> device{};  ///< after the last iteration, if the device reports it
  std::optional<std::int64_t> reserved{};   ///< at most, by the modelled allocator if there is one
  std::vector<LateRelease> late{};          ///< if lifetimes are checked
};

struct Execution {
  std::vector<StepReport> steps;
  std::vector<RankReport> ranks;  ///< by rank
  std::vector<RankTrace> traces;  ///< of the last iteration, by rank; empty unless asked for
};

struct ExecutionOptions {
  int steps = 1;
  bool values_matter = true;            ///< false: parameters start as any numbers, which is faster
  bool is_virtual = false;              ///< the virtual clock instead of the wall clock
  int kernel_threads = 1;               ///< per rank, as its backend has them
  std::optional<Bytes> memory_limit{};  ///< per rank
  bool traces = false;                  ///< whether the last iteration is traced
  TraceDetail detail = TraceDetail::op;
  /// Whether requests also go through the allocator that the configuration names.
  bool models_allocator = false;
  bool checks_lifetimes = false;  ///< see LifetimeCheck
  RankId reporting_rank{};
  /// Not null: if it is not 0 on any rank, all ranks end after the iteration, as after the last
  /// one.
  std::atomic<int> const* ends = nullptr;
  /// Called by the reporting rank's thread after each iteration.
  std::function<void(StepReport const&)> on_step{};
  /// Called by each rank's thread before the first, after each, and after the last iteration. The
  /// report is of the iteration before, and the same on all ranks.
  std::function<void(RankContext const&, RankExecutor&)> before_first{};
  std::function<void(RankContext const&, RankExecutor&, StepReport const&)> after_each{};
  std::function<void(RankContext const&, RankExecutor&, StepReport const&)> after_last{};
  /// Called after each kernel of a forward or backward; for tests, not timed.
  OpObserver on_op{};
};

/// What an executor runs with. Everything must outlive the execution.
struct ExecutionParts {
  /// Makes the device of one rank.
  std::function<std::unique_ptr<Backend>(KernelNeeds const& needs)> make_backend{};
  DeviceKind device = DeviceKind::cpu;  ///< of the backends
  TokenSource const* tokens = nullptr;
  CommunicationCosts const* costs = nullptr;  ///< needed by the virtual clock
};

/// A rank has failed, and with it the run. The message says which rank, where and why.
class ExecutionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Runs a plan with every rank of the job as a thread of this process.
/// \throws MemoryLimitError  if a rank does not fit; names the rank.
/// \throws DataError, OutputError  if a hook cannot read or write its files.
/// \throws ExecutionError  if a rank fails otherwise.
Execution execute_on_threads(TrainingPlan const& plan,
                             ExecutionParts const& parts,
                             ExecutionOptions const& options);

/// Runs a plan with every rank of the job as a process of its own. All processes call it.
///
/// Rank 0 returns what execute_on_threads() returns; the others return the steps alone. The clock
/// is rank 0's wall clock, which the others follow. A rank that fails ends all processes through
/// JobSession::fail(), so failures during the run are not thrown.
/// \throws std::invalid_argument  if there is not one process per rank, or if time is virtual.
Execution execute_on_processes(TrainingPlan const& plan,
                               ExecutionParts const& parts,
                               ExecutionOptions const& options,
                               JobSession& session,
                               MakeProcessWorld const& make_world);

/// Runs one rank of a plan alone: it computes its shard, and communication takes the durations that
/// `parts` gives; see SoloCommunicator. The rank counts the same bytes as among its peers, and its
/// trace has the times of its kernels. Loss and gradient norm are meaningless, and an iteration has
/// no bubbles except for communication.
///
/// Time is virtual, whatever `options` say. The result has this rank alone.
/// Pre: the job has the rank.
/// \throws std::invalid_argument  if `parts` has no durations of communication; and what
///         execute_on_threads() throws.
Execution execute_solo(TrainingPlan const& plan,
                       RankId rank,
                       ExecutionParts const& parts,
                       ExecutionOptions const& options);

/// The results of one rank.
struct RankOutcome {
  std::vector<StepReport> steps;
  RankReport report;
  RankTrace trace;
};

/// Runs all iterations of one rank: everything that a rank's thread or process does.
///
/// Every rank calls `restart` between two barriers, to start the job's clock. An error goes to
/// Communicator::fail() before the rank's tensors are released.
/// \throws MemoryLimitError, ExecutionError  naming the rank; PeerFailure
RankOutcome run_rank(TrainingPlan const& plan,
                     RankId rank,
                     ExecutionParts const& parts,
                     ExecutionOptions const& options,
                     Communicator& communicator,
                     RankClock& clock,
                     std::function<void()> const& restart);

}  // namespace stagecraft
