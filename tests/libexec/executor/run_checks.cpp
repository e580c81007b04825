#include "tests/libexec/executor/run_checks.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/numbers.hpp"
#include "libsim/engine/simulation.hpp"
#include "libsim/memory/stage_memory.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/rank_programs.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/libsim/invented_system.hpp"

namespace stagecraft {
namespace {

/// The loss of an iteration if one element of one parameter is moved; on one rank, in fp64.
double loss_beside(TrainingConfig const& config,
                   std::string const& name,
                   std::size_t element,
                   double by) {
  SmallRun run;
  run.options.before_first = [&](RankContext const& context, RankExecutor& executor) {
    ParameterStore& store = executor.parameters();
    for (PlacedParameter const& placed : store.layout()) {
      if (placed.name() != name) continue;
      FlatRange const range = store.weights().part(placed.offset, placed.elements());
      std::vector<std::byte> bytes(static_cast<std::size_t>(range.elements * 8));
      context.backend.read(bytes.data(), range.data, bytes.size());
      std::vector<double> values = decode(bytes, range.type);
      values[element] += by;
      store.set(context.backend, placed, values);
    }
  };
  return execute(config, run).steps.front().loss;
}

double norm(std::vector<double> const& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

}  // namespace

double collectives_in_a_row(TrainingPlan const& plan) {
  double count = 0;
  StagePlan const& rank = plan.stages.front();
  for (IssueEntry const& step : unroll(rank.program).entries) {
    if (step.kind != IssueEntry::Kind::run) continue;
    Task const& task = rank.tasks[static_cast<std::size_t>(step.task)];
    if (task.kind == Task::Kind::step) {
      count += rank.step_ops[static_cast<std::size_t>(task.op)].payload > Bytes{0} ? 1 : 0;
      continue;
    }
    Pass const pass = task.kind == Task::Kind::forward ? Pass::forward : Pass::backward;
    for (TaskBlock const& of_task : blocks_in_order(plan.programs, task)) {
      for (Op const& op : plan.programs.blocks[of_task.block].ops(pass)) {
        count += op.stream == Stream::tensor_parallel ? 1 : 0;
      }
    }
  }
  return count;
}

TrainingConfig untied(TrainingConfig config) {
  config.model.tied_embeddings = false;
  return config;
}

double relative_distance(WholeTensor const& got, WholeTensor const& wanted) {
  std::vector<double> difference = got.values;
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= wanted.values[i];
  return norm(difference) / norm(wanted.values);
}

void require_close(std::vector<WholeTensor> const& got,
                   std::vector<WholeTensor> const& wanted,
                   double allowed) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(got[i].name);
    REQUIRE(got[i].name == wanted[i].name);
    REQUIRE(got[i].values.size() == wanted[i].values.size());
    REQUIRE(norm(wanted[i].values) > 0);
    REQUIRE(relative_distance(got[i], wanted[i]) <= allowed);
  }
}

void require_same_bits(std::vector<WholeTensor> const& a, std::vector<WholeTensor> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].name);
    REQUIRE(a[i].name == b[i].name);
    bool const has_same_bits = a[i].values == b[i].values;
    REQUIRE(has_same_bits);
  }
}

void require_same_bits(TrainingConfig const& a, TrainingConfig const& b) {
  SmallRun const run{.options = {.steps = 3}};
  std::vector<StepReport> const first = execute(a, run).steps;
  std::vector<StepReport> const second = execute(b, run).steps;
  for (std::size_t i = 0; i < first.size(); ++i) {
    REQUIRE(first[i].loss == second[i].loss);
    REQUIRE(first[i].gradient_norm == second[i].gradient_norm);
  }
  require_same_bits(parameters_after(a, 3), parameters_after(b, 3));
}

void require_close(TrainingConfig const& a, TrainingConfig const& b, double tolerance) {
  require_close(gradients_of(b), gradients_of(a), tolerance);
}

void require_alike_steps(TrainingConfig const& a, TrainingConfig const& b) {
  SmallRun const run{.options = {.steps = 3}};
  std::vector<StepReport> const one = execute(a, run).steps;
  std::vector<StepReport> const other = execute(b, run).steps;
  for (std::size_t i = 0; i < one.size(); ++i) {
    REQUIRE(other[i].loss == Approx(one[i].loss).epsilon(1e-12));
    REQUIRE(other[i].gradient_norm == Approx(one[i].gradient_norm).epsilon(1e-11));
  }
}

double require_learning(TrainingConfig config, std::vector<ParallelLayout> const& layouts) {
  config.model.vocabulary = 256;
  config.training.learning_rate = 3e-3;
  config.training.init_std = 0.02;
  auto const text =
      file_tokens(std::string{STAGECRAFT_SOURCE_DIR} + "/README.md", 256, config.model.sequence);
  SmallRun const run{.options = {.steps = 50}, .gemm = GemmKind::openblas, .tokens = text.get()};
  std::vector<StepReport> const one = execute(config, run).steps;
  REQUIRE(one.back().loss < one.front().loss - 1);
  for (ParallelLayout const& layout : layouts) {
    config.parallel = layout;
    std::vector<StepReport> const many = execute(config, run).steps;
    for (std::size_t i = 0; i < one.size(); ++i) {
      REQUIRE(many[i].loss == Approx(one[i].loss).epsilon(1e-3));
    }
  }
  return one.front().loss;
}

Execution execute_alone(TrainingPlan const& plan,
                        RankId rank,
                        CommunicationCosts const& costs,
                        ExecutionOptions const& options) {
  auto const tokens = synthetic_tokens(plan.config.model.vocabulary, 7);
  ExecutionParts const parts{
      .make_backend = [](KernelNeeds const& needs) { return make_cpu_backend(needs, {}); },
      .tokens = tokens.get(),
      .costs = &costs};
  return execute_solo(plan, rank, parts, options);
}

int require_slopes(TrainingConfig const& config,
                   std::function<bool(std::string const&)> const& is_meant) {
  constexpr double step = 1e-4;
  int compared = 0;
  for (WholeTensor const& gradient : gradients_of(config)) {
    if (!is_meant(gradient.name)) continue;
    CAPTURE(gradient.name);
    ++compared;
    std::size_t const count = gradient.values.size();
    double largest = 0;
    for (double const value : gradient.values) largest = std::max(largest, std::abs(value));
    REQUIRE(largest > 1e-9);
    for (std::size_t const i : {std::size_t{0}, count / 3, 2 * count / 3, count - 1}) {
      CAPTURE(i);
      double const slope = (loss_beside(config, gradient.name, i, step) -
                            loss_beside(config, gradient.name, i, -step)) /
                           (2 * step);
      REQUIRE(gradient.values[i] == Approx(slope).margin(1e-5 * largest).epsilon(1e-6));
    }
  }
  return compared;
}

void require_predicted_bytes(TrainingConfig const& config) {
  TrainingPlan const plan = make_plan(as_settled(completed(config)));
  System system = invented_system();
  system.accelerator.peak.value.fp8 = FlopsPerSecond{200e12};  // as if there were these
  system.accelerator.peak.value.fp4 = FlopsPerSecond{400e12};
  Simulation const predicted = simulate(plan, system);
  std::vector<std::int64_t> fullest(plan.stages.size());
  for (RankReport const& rank : execute(config, {.gemm = GemmKind::openblas}).ranks) {
    auto const stage = rank.stage.index();
    RankPrograms const own{plan, plan.groups.at_stage(rank.rank, StageId{0}).value()};
    StageMemory const memory = peak_memory({plan, plan.stages[rank.stage], *own});
    std::int64_t held = 0;
    for (int i = 0; i < category_count; ++i) {
      auto const category = static_cast<Category>(i);
      CAPTURE(name_of(category));
      if (category == Category::workspace) continue;
      CHECK(rank.at_peak[category] == memory.at_peak[category]);
      held += rank.at_peak[category];
    }
    CHECK(rank.activation_peak == memory.activation_peak);
    fullest[stage] = std::max(fullest[stage], held);
  }
  for (std::size_t i = 0; i < fullest.size(); ++i) {
    CHECK(fullest[i] ==
          predicted.stages[i].peak() - predicted.stages[i].at_peak[Category::workspace]);
  }
}

SmallRun on_device(int steps) { return {.options = {.steps = steps}, .device = DeviceKind::cuda}; }

double device_tolerance(Precision precision) {
  switch (precision) {
    case Precision::fp64:
      return 1e-12;
    case Precision::fp32:
      return 1e-5;
    default:
      return 1e-2;
  }
}

void require_same_memory(TrainingConfig const& config) {
  auto const device = execute(config, on_device()).ranks;
  auto const cpu = execute(config).ranks;
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    CategoryBytes got = device[i].at_peak;
    CategoryBytes wanted = cpu[i].at_peak;
    got[Category::workspace] = 0;
    wanted[Category::workspace] = 0;
    REQUIRE(got == wanted);
    REQUIRE(device[i].activation_peak == cpu[i].activation_peak);
  }
}

}  // namespace stagecraft
