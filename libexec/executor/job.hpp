#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libexec/backends/backend.hpp"
#include "libexec/executor/clocks.hpp"
#include "libexec/executor/rank_executor.hpp"
#include "libexec/executor/token_source.hpp"
#include "libsim/trace/trace.hpp"

namespace stagecraft {

/// One iteration as all ranks saw it.
struct StepReport {
  std::int64_t step = 0;     ///< from 0, since the first start of the training
  double loss = 0;           ///< nats a token, mean of the global batch
  double gradient_norm = 0;  ///< of all gradients, before clipping
  double seconds = 0;        ///< of the slowest rank
  bool was_skipped = false;  ///< a gradient was infinite: no parameter was changed
};

/// What one rank allocated at most.
struct RankReport {
  int rank = 0;
  int stage = 0;
  CategoryBytes at_peak;  ///< at the first instant where the sum was largest, workspace added
  std::int64_t activation_peak = 0;
  std::optional<DeviceMemoryUse> device{};  ///< after the last iteration; where a device says
};

struct Execution {
  std::vector<StepReport> steps;
  std::vector<RankReport> ranks;  ///< by rank
  std::vector<RankTrace> traces;  ///< of the last iteration, by rank; where asked for
};

struct ExecutionOptions {
  int steps = 1;
  bool values_matter = true;            ///< else parameters start as any numbers, which is quicker
  bool is_virtual = false;              ///< the virtual clock instead of the wall clock
  int kernel_threads = 1;               ///< of each rank, as its backend has them
  std::optional<Bytes> memory_limit{};  ///< of each rank
  bool traces = false;                  ///< of the last iteration
  TraceDetail detail = TraceDetail::op;
  int reporting_rank = 0;
  /// Called by the reporting rank's thread after each iteration.
  std::function<void(StepReport const&)> on_step{};
  /// Called by each rank's thread before the first, after each, and after the last iteration.
  std::function<void(RankContext const&, RankExecutor&)> before_first{};
  std::function<void(RankContext const&, RankExecutor&)> after_each{};
  std::function<void(RankContext const&, RankExecutor&)> after_last{};
  /// Called after each kernel of a forward or backward; for tests, not timed.
  OpObserver on_op{};
};

/// What an executor runs with; everything outlives the execution.
struct ExecutionParts {
  /// The device of one rank.
  std::function<std::unique_ptr<Backend>(KernelNeeds const& needs)> make_backend{};
  DeviceKind device = DeviceKind::cpu;  ///< that they are on
  TokenSource const* tokens = nullptr;
  CommunicationPrices const* prices = nullptr;  ///< needed by the virtual clock
};

/// A rank has failed, and with it the run. The message names rank, place and reason.
class ExecutionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace stagecraft
