// Runs a small plan with ranks as processes and with ranks as threads, and holds the two against
// each other: losses, gradient norms, parameters and counted memory must be the same to the bit.
//
// usage: mpirun -n RANKS mpi_against_threads PLAN

#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
#include <string>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/checkpoint/checkpoint.hpp"
#include "libexec/comm/mpi/mpi_world.hpp"
#include "libexec/executor/job.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/comm/process_runs.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

TrainingConfig config_named(std::string const& name) {
  TrainingConfig config = small_gpt(Precision::bf16);
  config.model.tied_embeddings = name == "tied";
  if (name == "tensor_pipeline" || name == "tied") {
    config.parallel = {.tensor = 2, .pipeline = 2};
  } else if (name == "overlapped_gradients") {
    config.parallel = {
        .tensor = 2, .pipeline = 2, .data = 2, .sequence = true, .overlap_gradients = true};
    config.sharding = sharding_of(true);
  } else if (name == "interleaved_overlapped") {
    config.parallel = {.tensor = 2, .pipeline = 2, .interleave = 2, .sequence = true};
    config.schedule = {.kind = ScheduleKind::interleaved, .p2p = P2p::overlapped};
  } else if (name == "copies_of_units") {
    config = small_llama(Precision::bf16);
    config.parallel = {.data = 4};
    config.sharding = default_sharding(ShardingKind::fsdp2);
    config.sharding.group = 2;
  } else if (name == "grouped_heads") {
    config = small_llama(Precision::fp16);
    config.parallel = {.tensor = 4, .pipeline = 2};
  } else if (name == "hot_experts" || name == "natural_experts" || name == "gathered_experts" ||
             name == "limited_experts") {
    config = small_llama(Precision::bf16);
    config.model.experts = ExpertsConfig{.count = 4, .per_token = 2, .ffn_hidden = 12};
    config.parallel = {.tensor = 2, .data = 2, .sequence = true, .expert = 4};
    config.routing.is_natural = name == "natural_experts" || name == "gathered_experts";
    if (name == "hot_experts") config.routing.factor = 1.5;
    if (name == "gathered_experts") config.dispatch = Dispatch::allgather;
    if (name == "limited_experts") {
      config.dispatch = Dispatch::deepep;
      config.routing.capacity = 0.75;
      config.routing.is_of_microbatch = true;
    }
  } else {
    throw std::runtime_error{"no plan has the name " + name};
  }
  return completed(config);
}

/// The parameters of one rank as they lie in memory.
Words parameters_of(RankContext const& context, RankExecutor& executor) {
  FlatRange const range = executor.parameters().weights();
  std::size_t const bytes = range.bytes();
  Words words((bytes + 7) / 8);
  context.backend.read(words.data(), range.data, bytes);
  return words;
}

/// Reading and writing of checkpoints, where there is a folder.
ExecutionOptions options_for(int steps, fs::path const& load, fs::path const& save) {
  ExecutionOptions options;
  options.steps = steps;
  options.traces = true;
  if (!load.empty()) {
    options.before_first = [load](RankContext const& context, RankExecutor& executor) {
      load_checkpoint(load, context, executor);
    };
  }
  if (!save.empty()) {
    options.after_each = [save](RankContext const& context, RankExecutor& executor,
                                StepReport const&) { save_checkpoint(save, 1, context, executor); };
  }
  return options;
}

Outcome run_threads(TrainingConfig const& config, ExecutionOptions options) {
  Outcome outcome;
  outcome.parameters.resize(static_cast<std::size_t>(world_size(config.parallel)));
  options.after_last = [&](RankContext const& context, RankExecutor& executor, StepReport const&) {
    outcome.parameters[context.rank.index()] = parameters_of(context, executor);
  };
  outcome.execution = execute(config, {.options = options});
  return outcome;
}

/// The outcome is whole on rank 0.
Outcome run_processes(TrainingConfig const& config, ExecutionOptions options, MpiSession& session) {
  TrainingPlan const plan = make_plan(as_settled(config));
  auto const tokens = synthetic_tokens(config.model.vocabulary, 7);  // as small_runs has them
  ExecutionParts const parts{.make_backend =
                                 [](KernelNeeds const& needs) {
                                   return make_cpu_backend(needs, {.gemm = GemmKind::plain});
                                 },
                             .tokens = tokens.get()};
  Words own;
  options.after_last = [&](RankContext const& context, RankExecutor& executor, StepReport const&) {
    own = parameters_of(context, executor);
  };
  Outcome outcome;
  outcome.execution = execute_on_processes(plan, parts, options, session,
                                           [&](TrainingPlan const& of, JobClock const& clock) {
                                             return std::make_unique<MpiWorld>(of, session, clock);
                                           });
  outcome.parameters = session.gather(own);
  return outcome;
}

/// Times differ, nothing else does.
void require_same(Outcome const& a, Outcome const& b) {
  Execution const& x = a.execution;
  Execution const& y = b.execution;
  require(x.steps.size() == y.steps.size(), "number of steps");
  for (std::size_t i = 0; i < x.steps.size(); ++i) {
    require(x.steps[i].loss == y.steps[i].loss, "loss");
    require(x.steps[i].gradient_norm == y.steps[i].gradient_norm, "gradient norm");
    require(x.steps[i].seconds > 0 && y.steps[i].seconds > 0, "that time passes");
  }
  require(a.parameters == b.parameters, "parameters");
  require_same_books(x, y);
}

int compare(std::string const& name, MpiSession& session) {
  TrainingConfig const config = config_named(name);
  fs::path const folder = fs::temp_directory_path() / ("stagecraft-mpi-" + name);
  bool const is_first = session.rank() == RankId{0};
  if (is_first) fs::remove_all(folder);
  Outcome const processes = run_processes(config, options_for(3, {}, {}), session);
  // Two steps, a checkpoint in a folder that all share, and the third.
  run_processes(config, options_for(2, {}, folder), session);
  Outcome const resumed = run_processes(config, options_for(1, folder, {}), session);
  if (!is_first) return 0;
  Outcome const threads = run_threads(config, options_for(3, {}, {}));
  require_same(processes, threads);
  require(resumed.parameters == threads.parameters, "parameters after a resumed run");
  require(run_threads(config, options_for(1, folder, {})).parameters == threads.parameters,
          "parameters of threads that go on from a checkpoint of processes");
  fs::remove_all(folder);
  std::cout << name << ": " << processes.execution.ranks.size() << " ranks, loss "
            << threads.execution.steps.back().loss << ", all the same\n";
  return 0;
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** argv) {
  using namespace stagecraft;
  MpiSession session{report_of};
  try {
    return compare(argc > 1 ? argv[1] : "", session);
  } catch (...) {
    session.fail(std::current_exception());
  }
}
