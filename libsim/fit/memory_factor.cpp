#include "libsim/fit/memory_factor.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <utility>

#include "libsim/config/option_problem.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/engine/stack_memory.hpp"
#include "libsim/engine/stage_allocators.hpp"
#include "libsim/fit/one_run.hpp"
#include "libsim/hardware/constant_values.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/interval/fit_probability.hpp"
#include "libsim/interval/time_interval.hpp"
#include "libsim/memory/buffer_events.hpp"
#include "libsim/memory/stage_reservation.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/units/quantity.hpp"

namespace stagecraft {
namespace {

using Kind = MemoryObservation::Kind;

[[noreturn]] void refuse(std::string const& option, std::string found, std::string accepted) {
  throw ConfigError{{option_problem(option, std::move(found), std::move(accepted))}};
}

/// The distribution of ln(measured / predicted): that of the run's software or, if too few runs of
/// it were measured, the widest.
MemoryRegime prior_of(TrainingConfig const& config, System const& system) {
  std::optional<MemoryRegime> const own = memory_regime_of(config, system);
  return own ? *own : widest_memory_regime();
}

std::string evidence_of(MemoryRegime const& prior,
                        TrainingConfig const& config,
                        System const& system) {
  std::string const runs = counted(prior.runs, "measured run") + " of " + prior.software;
  return is_own_regime(prior, config, system)
             ? runs
             : runs + ", as too few of " + system.software.name + " were measured";
}

/// The mean of what a standard normal distribution has above `a`.
double mean_above(double a) {
  constexpr double far = 30;  // beyond it the tail is too small for a double
  if (a > far) return a + 1 / a;
  double const density = std::exp(-a * a / 2) / std::sqrt(2 * std::numbers::pi);
  return density / (std::erfc(a / std::numbers::sqrt2) / 2);
}

/// The most that the stage's tensors hold, by counted bytes, with a request of about so many bytes
/// just served; nullopt if there is none. PyTorch prints requests with two decimals.
std::optional<std::int64_t> held_with_request(StageRank const& rank, Bytes request) {
  constexpr double tolerance = 0.01;
  auto const size = static_cast<double>(request.count());
  std::optional<std::int64_t> most;
  std::int64_t held = 0;
  std::map<std::int64_t, std::int64_t> live;  // by number of the buffer: bytes
  BufferEvents events{rank};
  while (events.next()) {
    for (BufferEvent const& event : events.now()) {
      BufferChange const& change = *event.change;
      if (change.kind == BufferChange::Kind::allocate) {
        held += change.bytes;
        live[event.buffer] = change.bytes;
        bool const is_alike =
            std::abs(static_cast<double>(change.bytes) - size) <= tolerance * size;
        if (is_alike && held > most.value_or(0)) most = held;
      } else if (change.kind == BufferChange::Kind::release) {
        auto const released = live.extract(event.buffer);
        if (released) held -= released.mapped();
      }
    }
  }
  return most;
}

StageId stage_of(Simulation const& simulation, MemoryObservation const& seen) {
  int const stages = static_cast<int>(simulation.stages.size());
  if (!seen.stage) {
    auto const fullest = std::ranges::min_element(simulation.stages, {}, &StageResult::margin);
    return StageId{fullest->stage};
  }
  if (seen.stage->value() >= stages) {
    refuse("--stage", "'" + std::to_string(seen.stage->value()) + "'",
           stages == 1 ? "0: the run has one stage" : "0 to " + std::to_string(stages - 1));
  }
  return *seen.stage;
}

Simulation simulated(TrainingPlan const& plan, System const& system) {
  Simulation simulation = simulate(plan, system);
  add_reservations(simulation, plan, system, 1);
  return simulation;
}

/// A stage of a plan, and its fullest rank.
struct FittedStage {
  TrainingPlan const& plan;
  System const& system;
  StagePlan const& stage;
  RankPrograms programs;

  StageRank rank() const { return {plan, stage, *programs}; }
  /// What is reserved or allocated on a device without limit.
  std::int64_t bytes(Kind kind, double factor) const {
    StageReservation const held = reserve_stage(rank(), unlimited_capacity, memory(factor));
    return kind == Kind::allocated ? held.allocated : held.reserved;
  }
  bool fits(std::int64_t room, double factor) const {
    return fits_in(rank(), room, memory(factor));
  }

 private:
  FrameworkMemory memory(double factor) const {
    FrameworkMemory memory = stack_memory(plan, system);
    memory.factor = factor;
    return memory;
  }
};

/// The least multiple of the prior factor with which the stage does not fit into the room.
double least_failing(FittedStage const& stage, std::int64_t room, double prior) {
  constexpr double most = 64;
  constexpr int halvings = 24;
  double fitting = 1 / most;
  double failing = most;
  if (stage.fits(room, prior * failing)) {
    refuse("--died", "a stage that is predicted to fit into a 64th of its room",
           "one that fills more of it: see `stagecraft simulate`");
  }
  for (int i = 0; i < halvings; ++i) {
    double const middle = std::sqrt(fitting * failing);
    (stage.fits(room, prior * middle) ? fitting : failing) = middle;
  }
  return failing;
}

std::string option_of(Kind kind) {
  return "--" + std::string{observation_names[static_cast<std::size_t>(kind)]};
}

/// Puts the factor at the mean of the prior above the least with which the stage fails. A factor
/// that was fitted to one run before, and explains that it does, is kept.
void fit_to_death(Sourced<double>& factor,
                  MemoryFactor& result,
                  FittedStage const& stage,
                  StageResult const& predicted,
                  MemoryRegime const& prior) {
  result.needed = std::llround(static_cast<double>(result.room) /
                               least_failing(stage, result.room, result.prior));
  if (result.seen.tried) {
    auto const held = held_with_request(stage.rank(), *result.seen.tried);
    result.makes_request = held.has_value();
    std::int64_t const counted = predicted.peak() - predicted.at_peak[Category::workspace];
    auto const later = std::max<std::int64_t>(counted - held.value_or(counted), 0);
    result.needed -= std::llround(result.prior * static_cast<double>(later));
  }
  double const least =
      std::log(static_cast<double>(result.room) / static_cast<double>(result.needed));
  bool const is_expected_to_fit = least > 0;
  if (!is_expected_to_fit && is_fitted_to_one_run(factor)) return;
  double const a = (least - prior.bias) / prior.spread;
  double const mean = mean_above(a);
  factor.value *= std::exp(prior.bias + prior.spread * mean);
  result.standard_error =
      factor.value * prior.spread * std::sqrt(std::max(0.0, 1 + a * mean - mean * mean));
}

/// Refuses fewer bytes than parameters, gradients and optimizer state have, whatever the stack.
void refuse_less_than_state(MemoryObservation const& seen, StageResult const& predicted) {
  Bytes const state{predicted.at_peak[Category::parameters] +
                    predicted.at_peak[Category::gradients] +
                    predicted.at_peak[Category::optimizer]};
  if (seen.kind == Kind::died || seen.bytes >= state) return;
  refuse(option_of(seen.kind), "'" + exact_text(seen.bytes) + "'",
         "at least the " + readable_text(state) +
             " of parameters, gradients and optimizer state on stage " +
             std::to_string(predicted.stage) + ": a run with fewer is another one");
}

/// Makes the predicted bytes the measured ones.
void fit_to_bytes(Sourced<double>& factor, MemoryFactor const& result) {
  factor.value *=
      static_cast<double>(result.seen.bytes.count()) / static_cast<double>(result.predicted_before);
  if (factor.value >= factor_range.lower) return;
  refuse(option_of(result.seen.kind), "'" + exact_text(result.seen.bytes) + "'",
         "at least a thousandth of the predicted " + readable_text(Bytes{result.predicted_before}));
}

std::string source_of(MemoryFactor const& fitted, std::string const& name) {
  if (fitted.seen.kind == Kind::died) return name + ", of which a rank ran out of memory";
  return "One run of " + name + ", of which a rank " +
         (fitted.seen.kind == Kind::reserved ? "reserved " : "allocated ") +
         exact_text(fitted.seen.bytes);
}

}  // namespace

bool MemoryFactor::is_expected() const {
  if (seen.kind == Kind::died) {
    return static_cast<double>(room) * static_cast<double>(predicted_before) <=
           interval[1] * static_cast<double>(needed);
  }
  auto const measured = static_cast<double>(seen.bytes.count());
  return measured >= interval[0] && measured <= interval[1];
}

MemoryFactor fit_memory_factor(RunConfig run,
                               MemoryObservation const& seen,
                               std::string const& name) {
  Bytes const device = run.system.accelerator.memory.value;
  if (seen.kind != Kind::died && seen.bytes > device) {
    refuse(option_of(seen.kind), "'" + exact_text(seen.bytes) + "'",
           "at most the " + readable_text(device) + " of a " + run.system.accelerator.name);
  }
  if (seen.tried && *seen.tried > device) {
    refuse("--tried-bytes", "'" + exact_text(*seen.tried) + "'",
           "at most the " + readable_text(device) + " of a " + run.system.accelerator.name +
               ": a larger request fails whatever else is held");
  }
  TrainingPlan const plan = make_plan(settled(run.training, run.system));
  Simulation const before = simulated(plan, run.system);
  MemoryRegime const prior = prior_of(run.training, run.system);
  Sourced<double>& factor = run.system.software.memory.factor;
  MemoryFactor result;
  result.seen = seen;
  result.stage = stage_of(before, seen);
  result.prior = factor.value;
  result.room = StageAllocators{plan, run.system}.room(result.stage);
  result.verdict_before = verdict_of(before);
  // Without all that the framework allocates, reserved bytes are no prediction.
  bool const is_known = decides_by_allocator(run.system.software);
  if (is_known) {
    result.lives_before = fit_probability_of(before, prior).run;
  } else {
    result.why_not_known = "the software " + run.system.software.name +
                           " does not say what it allocates beside the tensors";
  }
  result.evidence = evidence_of(prior, run.training, run.system);
  StageResult const& predicted = before.stages[result.stage.index()];
  FittedStage const stage{plan, run.system, plan.stages[result.stage], {plan, predicted.rank()}};
  bool const has_died = seen.kind == Kind::died;
  refuse_less_than_state(seen, predicted);
  result.predicted_before =
      has_died ? predicted.reservation->reserved : stage.bytes(seen.kind, result.prior);
  double const spread_of_80 = normal_quantile_of_90 * prior.spread;
  auto const bytes = static_cast<double>(result.predicted_before);
  result.interval = {bytes * std::exp(prior.bias - spread_of_80),
                     bytes * std::exp(prior.bias + spread_of_80)};
  if (has_died) {
    fit_to_death(factor, result, stage, predicted, prior);
  } else {
    fit_to_bytes(factor, result);
  }
  factor.source = source_of(result, name);
  mark_as_fitted(run.system.software, factor, name);

  Simulation const after = simulated(plan, run.system);
  result.predicted = has_died ? after.stages[result.stage.index()].reservation->reserved
                              : stage.bytes(seen.kind, factor.value);
  result.verdict = verdict_of(after);
  if (is_known) {
    result.lives = fit_probability_of(after, prior_of(run.training, run.system)).run;
  }
  result.run = std::move(run);
  return result;
}

}  // namespace stagecraft
