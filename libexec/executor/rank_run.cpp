#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "libexec/comm/collectives.hpp"
#include "libexec/executor/job.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libexec/executor/token_source.hpp"
#include "libexec/kernels/cpu/exact_sum.hpp"
#include "libsim/host/file_error.hpp"
#include "libsim/memory/configured_allocator.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/plan/rank_programs.hpp"

namespace stagecraft {
namespace {

TimeSpan all_reduce(Communicator& communicator, Collective const& collective) {
  return communicator.finish(collective.group, communicator.start(collective));
}

/// The sum over all ranks, per token of the global batch.
double mean_over_batch(RankContext const& context, ExactSum sum) {
  auto& words = sum.words();
  all_reduce(context.communicator, {.group = context.plan.roles.job,
                                    .type = ElementType::i64,
                                    .source = words.data(),
                                    .target = words.data(),
                                    .elements = static_cast<std::int64_t>(words.size()),
                                    .in_host_memory = true});
  return sum.value() /
         static_cast<double>(context.plan.config.batch.global * context.plan.config.model.sequence);
}

/// Whether routers or modules of multi-token prediction add to the loss.
bool has_more_losses(ModelConfig const& model) {
  std::vector<LayerRun> const runs = layer_runs(model);
  return model.predicted_tokens > 0 ||
         std::any_of(runs.begin(), runs.end(), [](LayerRun const& run) {
           return run.kind.experts && (run.kind.experts->router.loss != RouterLoss::none ||
                                       run.kind.experts->router.z_loss > 0);
         });
}

/// Sets the losses of the global batch. Of the tensor ranks only one counts a microbatch; each
/// context rank counts its own tokens. Routers' losses are means over microbatches, to which each
/// rank adds its part.
void report_loss(RankContext const& context, RankExecutor& executor, StepReport& report) {
  ExactSum sum;
  bool const counts_tokens = context.place.tensor == 0;
  if (counts_tokens) {
    for (auto const& [microbatch, loss] : executor.losses()) sum.add(loss);
  }
  if (!has_more_losses(context.plan.config.model)) {
    report.loss = mean_over_batch(context, sum);
    return;
  }
  report.next_token_loss = mean_over_batch(context, sum);
  if (counts_tokens) {
    for (double const loss : executor.prediction_losses()) sum.add(loss);
  }
  auto const tokens =
      static_cast<double>(context.plan.config.batch.micro * context.plan.config.model.sequence);
  for (double const part : executor.router_losses()) sum.add(part * tokens);
  report.loss = mean_over_batch(context, sum);
}

/// What the ranks agree on after an iteration.
struct IterationEnd {
  double seconds = 0;    ///< of the slowest rank
  bool is_last = false;  ///< a rank was told to end
};

IterationEnd agree(RankContext const& context, std::atomic<int> const* ends) {
  bool const is_told = ends != nullptr && *ends != 0;
  std::array<double, 2> most{to_seconds(context.clock.elapsed()), is_told ? 1.0 : 0.0};
  all_reduce(context.communicator, {.group = context.plan.roles.job,
                                    .reduction = Reduction::maximum,
                                    .type = ElementType::f64,
                                    .source = most.data(),
                                    .target = most.data(),
                                    .elements = static_cast<std::int64_t>(most.size()),
                                    .in_host_memory = true});
  return {.seconds = most[0], .is_last = most[1] != 0};
}

TrainingState first_state(TrainingConfig const& config) {
  TrainingState state;
  if (config.model.precision == Precision::fp16) state.loss_scale = config.training.loss_scale;
  return state;
}

/// Everything that a rank owns, in the order of construction: each member uses those above it.
/// Between two iterations it holds what its stage keeps, and what it has recorded.
class RankRun {
 public:
  RankRun(TrainingPlan const& plan,
          Programs const& programs,
          RankId rank,
          ExecutionParts const& parts,
          ExecutionOptions const& options,
          Communicator& communicator,
          RankClock& clock)
      : place_{place_of(plan.groups, rank)},
        options_{options},
        backend_{parts.make_backend(kernel_needs(plan, rank))},
        device_side_{
            make_device_communicator(communicator, plan.groups, *backend_, clock.is_virtual())},
        allocator_{
            *backend_, backend_->workspace(),
            options.memory_limit ? options.memory_limit->count() : CountingAllocator::no_limit},
        state_{first_state(plan.config)},
        vocabulary_{plan},
        recorder_{vocabulary_, rank, place_.stage, options.detail},
        context_{.plan = plan,
                 .programs = programs,
                 .program = plan.stages[place_.stage],
                 .rank = rank,
                 .place = place_,
                 .backend = *backend_,
                 .allocator = allocator_,
                 .communicator = device_side_ ? *device_side_ : communicator,
                 .clock = clock,
                 .tokens = *parts.tokens,
                 .state = state_,
                 .costs = clock.is_virtual() ? parts.costs : nullptr,
                 .on_op = options.on_op ? &options.on_op : nullptr,
                 .lifetimes = options.checks_lifetimes ? &lifetimes_ : nullptr,
                 .values_matter = options.values_matter},
        executor_{with_modelled_allocator(plan.config.memory)} {
    if (DeviceTimeline* const timeline = backend_->timeline()) clock.follow(*timeline);
  }

  RankOutcome run(std::function<void()> const& restart) {
    if (options_.before_first) options_.before_first(context_, executor_);
    RankOutcome outcome;
    for (int i = 0; i < options_.steps && !is_told_to_end_; ++i) {
      bool const is_traced = options_.traces && i + 1 == options_.steps;
      outcome.steps.push_back(run_iteration(is_traced, restart));
      if (context_.rank == options_.reporting_rank && options_.on_step)
        options_.on_step(outcome.steps.back());
      if (options_.after_each) options_.after_each(context_, executor_, outcome.steps.back());
    }
    if (options_.after_last) options_.after_last(context_, executor_, outcome.steps.back());
    outcome.report = {.rank = context_.rank,
                      .stage = place_.stage,
                      .at_peak = allocator_.at_peak(),
                      .activation_peak = allocator_.activation_peak(),
                      .device = backend_->memory_use(),
                      .reserved = {},
                      .late = lifetimes_.late()};
    if (allocator_.modelled() != nullptr) {
      outcome.report.reserved = allocator_.modelled()->counters().peak_reserved;
    }
    outcome.trace = recorder_.trace();
    return outcome;
  }

  std::string position() const { return executor_.position(); }

 private:
  /// Before the executor allocates anything.
  RankContext& with_modelled_allocator(MemoryConfig const& memory) {
    if (options_.models_allocator) {
      allocator_.follow_with(configured_allocator(memory, unlimited_capacity));
    }
    return context_;
  }

  StepReport run_iteration(bool is_traced, std::function<void()> const& restart) {
    Communicator& communicator = context_.communicator;
    communicator.barrier();
    restart();
    communicator.barrier();
    context_.clock.restart(is_traced);
    executor_.begin_iteration();
    if (is_traced) begin_trace();
    StepReport report{.step = state_.step};
    executor_.run_iteration();
    if (is_traced) allocator_.observe({});
    IterationEnd const end = agree(context_, options_.ends);
    report.seconds = end.seconds;
    is_told_to_end_ = end.is_last;
    if (is_traced && !context_.clock.is_virtual() && backend_->timeline() != nullptr) {
      recorder_.resolve(*backend_->timeline());
    }
    report_loss(context_, executor_, report);
    report.gradient_norm = executor_.gradient_norm();
    report.was_skipped = executor_.was_skipped();
    return report;
  }

  void begin_trace() {
    auto const with_workspace = [this](CategoryBytes bytes) {
      bytes[Category::workspace] += backend_->workspace().count();
      return bytes;
    };
    context_.recorder = &recorder_;
    Allocator* const modelled = allocator_.modelled();
    // So that all traces begin alike, whichever iteration they are of.
    if (modelled != nullptr) modelled->empty_cache();
    auto const reserved = [modelled] {
      return modelled == nullptr ? std::optional<std::int64_t>{} : modelled->counters().reserved;
    };
    recorder_.restart(with_workspace(allocator_.now()), reserved());
    allocator_.observe([this, with_workspace, reserved](CategoryBytes const& now) {
      recorder_.add_memory(context_.clock.instant(), with_workspace(now), reserved());
    });
  }

  RankPlace place_;
  ExecutionOptions const& options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> device_side_;
  CountingAllocator allocator_;
  LifetimeCheck lifetimes_;
  TrainingState state_;
  TraceVocabulary vocabulary_;
  ExecutionRecorder recorder_;
  RankContext context_;
  RankExecutor executor_;
  bool is_told_to_end_ = false;
};

/// The current exception; if it does not name the rank and its position, with these added.
std::exception_ptr with_place(std::string const& who, std::string const& position) {
  try {
    throw;
  } catch (PeerFailure const&) {
    return std::current_exception();
  } catch (MemoryLimitError const& error) {
    return std::make_exception_ptr(MemoryLimitError{who + ": " + error.what()});
  } catch (DataError const&) {
    return std::current_exception();
  } catch (OutputError const&) {
    return std::current_exception();
  } catch (std::exception const& error) {
    return std::make_exception_ptr(ExecutionError{who + ", " + position + ": " + error.what()});
  }
}

}  // namespace

RankOutcome run_rank(TrainingPlan const& plan,
                     RankId rank,
                     ExecutionParts const& parts,
                     ExecutionOptions const& options,
                     Communicator& communicator,
                     RankClock& clock,
                     std::function<void()> const& restart) {
  StageId const stage = plan.groups.stage_of(rank);
  std::optional<RankPrograms> own;
  std::optional<RankRun> run;
  try {
    own.emplace(plan, plan.groups.at_stage(rank, StageId{0}).value());
    run.emplace(plan, **own, rank, parts, options, communicator, clock);
    return run->run(restart);
  } catch (...) {
    std::string const who =
        "rank " + std::to_string(rank.value()) + " (stage " + std::to_string(stage.value()) + ")";
    std::exception_ptr const error = with_place(who, run ? run->position() : "at the start");
    communicator.fail(error);
    std::rethrow_exception(error);
  }
}

}  // namespace stagecraft
