#include "libsim/sweep/evaluate_point.hpp"

#include <stdexcept>

#include "libsim/engine/settle.hpp"
#include "libsim/engine/stage_allocators.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {
namespace {

SweepRow impossible(std::int64_t point, std::string message) {
  return {.point = point,
          .is_valid = false,
          .message = std::move(message),
          .plan = {},
          .integers = std::vector<std::int64_t>(integer_columns().size(), no_integer),
          .reals = std::vector<double>(real_columns().size(), no_real())};
}

/// The first problem without its place, so that rows do not depend on the names of files.
std::string reason(ConfigError const& error) {
  Problem problem = error.problems().front();
  problem.place = {};
  std::string text = to_string(problem);
  if (error.problems().size() > 1) {
    text += " (and " + std::to_string(error.problems().size() - 1) + " more)";
  }
  return text;
}

/// Whether an allocator may give every stage what it asks for. Stages whose tensors alone do not
/// fit are marked: what a framework allocates is only added to them, so nothing needs to be
/// replayed, unless it has one buffer for what are several tensors here.
bool may_fit(Simulation& simulation, TrainingPlan const& plan, System const& system) {
  MemoryUse const& memory = system.software.memory;
  if (!memory.global_buffer.value.empty() || memory.kept_gathers.value) return true;
  StageAllocators const allocators{plan, system};
  bool fit = true;
  for (std::size_t i = 0; i < simulation.stages.size(); ++i) {
    StageResult& stage = simulation.stages[i];
    if (stage.peak() <= allocators.room(StageId::of_index(i))) continue;
    stage.verdict = Verdict::does_not_fit;
    stage.fits = fit = false;
  }
  return fit;
}

}  // namespace

SweepRow evaluate_point(Sweep const& sweep, std::int64_t point) {
  std::vector<std::size_t> entries;
  choose_entries(sweep.axes, point, entries);
  try {
    RunConfig const run = run_of(sweep, entries);
    TrainingPlan const plan = make_plan(settled(run.training, run.system));
    Simulation simulation = simulate(plan, run.system);
    if (decides_by_allocator(run.system.software) && may_fit(simulation, plan, run.system)) {
      add_reservations(simulation, plan, run.system, 1);
    }
    SweepRow row{
        .point = point, .message = {}, .plan = fingerprint(plan), .integers = {}, .reals = {}};
    for (IntegerColumn const& column : integer_columns()) {
      row.integers.push_back(column.value(simulation, plan));
    }
    row.warnings = run.warnings;
    if (auto warning = validation_warning(run.training, run.system))
      row.warnings.push_back(std::move(*warning));
    for (RealColumn const& column : real_columns()) {
      row.reals.push_back(column.value(simulation, plan));
    }
    return row;
  } catch (ConfigError const& error) {
    return impossible(point, reason(error));
  } catch (ScheduleError const& error) {
    return impossible(point, error.what());
  } catch (std::exception const& error) {
    throw std::runtime_error{"point " + std::to_string(point) + " (" +
                             settings_text(sweep.axes, entries) + "): " + error.what()};
  }
}

}  // namespace stagecraft
