#include "libexec/executor/rank_run.hpp"

#include <string>

#include "libexec/executor/exact_sum.hpp"

namespace stagecraft {
namespace {

TimeSpan meet(Communicator& communicator, Collective const& collective) {
  return communicator.finish(collective.group, communicator.start(collective));
}

/// Mean loss of the global batch. Each microbatch counts once: on one tensor rank.
double mean_loss(RankContext const& context, RankExecutor& executor) {
  ExactSum sum;
  if (context.place.tensor == 0) {
    for (auto const& [microbatch, loss] : executor.losses()) sum.add(loss);
  }
  auto& words = sum.words();
  meet(context.communicator, {.group = CollectiveGroup::job,
                              .type = ElementType::i64,
                              .source = words.data(),
                              .target = words.data(),
                              .elements = static_cast<std::int64_t>(words.size())});
  return sum.value() /
         static_cast<double>(context.plan.config.batch.global * context.plan.config.model.sequence);
}

double slowest(RankContext const& context) {
  double seconds = to_seconds(context.clock.now());
  meet(context.communicator, {.group = CollectiveGroup::job,
                              .reduction = Reduction::maximum,
                              .type = ElementType::f64,
                              .source = &seconds,
                              .target = &seconds,
                              .elements = 1});
  return seconds;
}

TrainingState first_state(TrainingConfig const& config) {
  TrainingState state;
  if (config.model.precision == Precision::fp16) state.loss_scale = config.training.loss_scale;
  return state;
}

}  // namespace

RankOutcome run_rank(TrainingPlan const& plan,
                     int rank,
                     ExecutionParts const& parts,
                     ExecutionOptions const& options,
                     Communicator& communicator,
                     RankClock& clock,
                     std::function<void()> const& restart) {
  RankPlace const place = place_of(plan.config.parallel, rank);
  RankPlan const& program = plan.ranks[static_cast<std::size_t>(place.pipeline)];
  RankShare const share{.shape = plan.shape, .tensor_rank = place.tensor};
  std::string const who =
      "rank " + std::to_string(rank) + " (stage " + std::to_string(place.pipeline) + ")";
  std::unique_ptr<RankExecutor> executor;
  try {
    std::unique_ptr<Backend> const backend = parts.make_backend(share);
    CountingAllocator allocator{
        *backend, backend->workspace(),
        options.memory_limit ? options.memory_limit->count() : CountingAllocator::no_limit};
    TrainingState state = first_state(plan.config);
    TraceVocabulary const vocabulary{plan};
    ExecutionRecorder recorder{vocabulary, rank, place.pipeline};
    RankContext context{.plan = plan,
                        .program = program,
                        .rank = rank,
                        .place = place,
                        .share = share,
                        .backend = *backend,
                        .allocator = allocator,
                        .communicator = communicator,
                        .clock = clock,
                        .tokens = *parts.tokens,
                        .state = state,
                        .prices = clock.is_virtual() ? parts.prices : nullptr};
    executor = std::make_unique<RankExecutor>(context);
    if (options.before_first) options.before_first(context, *executor);

    RankOutcome outcome;
    for (int i = 0; i < options.steps; ++i) {
      bool const is_traced = options.traces && i + 1 == options.steps;
      communicator.barrier();
      if (rank == 0) restart();
      communicator.barrier();
      if (clock.is_virtual()) clock.restart();
      if (is_traced) {
        context.recorder = &recorder;
        auto const with_workspace = [&](CategoryBytes bytes) {
          bytes[Category::workspace] += backend->workspace().count();
          return bytes;
        };
        recorder.restart(with_workspace(allocator.now()));
        allocator.observe([&, with_workspace](CategoryBytes const& now) {
          recorder.add_memory(clock.now(), with_workspace(now));
        });
      }
      StepReport report{.step = state.step};
      executor->run_iteration();
      if (is_traced) allocator.observe({});
      report.seconds = slowest(context);
      report.loss = mean_loss(context, *executor);
      report.gradient_norm = executor->gradient_norm();
      report.was_skipped = executor->was_skipped();
      outcome.steps.push_back(report);
      if (rank == 0 && options.on_step) options.on_step(report);
    }
    if (options.after_last) options.after_last(context, *executor);
    outcome.report = {.rank = rank,
                      .stage = place.pipeline,
                      .at_peak = allocator.at_peak(),
                      .activation_peak = allocator.activation_peak()};
    outcome.trace = recorder.trace();
    executor.reset();
    return outcome;
  } catch (PeerFailure const&) {
    throw;
  } catch (MemoryLimitError const& error) {
    throw MemoryLimitError{who + ": " + error.what()};
  } catch (std::exception const& error) {
    std::string const where = executor ? executor->position() : "the start";
    throw ExecutionError{who + ", " + where + ": " + error.what()};
  }
}

}  // namespace stagecraft
