#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/program/output_paths.hpp"
#include "apps/program/run_program.hpp"
#include "apps/python/bindings/errors.hpp"
#include "apps/python/bindings/frames.hpp"
#include "apps/python/bindings/interruptible.hpp"
#include "apps/python/bindings/run.hpp"
#include "apps/python/bindings/simulated_run.hpp"
#include "apps/python/bindings/text_caster.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/near_miss.hpp"
#include "apps/stagecraft/plan/plan_json.hpp"
#include "apps/stagecraft/plan/plan_options.hpp"
#include "apps/stagecraft/schedule/asked_schedule.hpp"
#include "libsim/engine/record.hpp"
#include "libsim/explain/explanation.hpp"
#include "libsim/explain/explanation_json.hpp"
#include "libsim/host/fork_gate.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/report/layer_report.hpp"
#include "libsim/run/named_file.hpp"
#include "libsim/run/paper_config_folder.hpp"
#include "libsim/validation/validation_output.hpp"

namespace stagecraft::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// Commands whose arguments are words of a command line, without the command's name. Each gives the
// document that the command prints with --json, as text.

/// An imported file: its text, its keys as JSON (null of a run file), and the notes.
using Imported = std::tuple<std::string, std::string, std::vector<std::string>>;

CommandProgress reporting_to(Work& work) {
  return [&work](char const* part, double share, double /*count*/) { work.report(part, share); };
}

Command subcommand(Command const& command, std::string_view name) {
  for (Command const& one : command.subcommands) {
    if (one.name == name) return one;
  }
  throw std::invalid_argument{"no subcommand '" + std::string{name} + "'"};
}

/// \throws DoesNotFit  if no plan fits.
std::string plan_document(std::vector<std::string> const& words, nb::object const& progress) {
  Command const command = plan_command();
  std::string text;
  run_interruptibly(progress, [&](Work& work) {
    PlanQuestion const question = read_plan_question(CommandLine{command, words});
    PlanAnswer const answer = plan_as_asked(question, reporting_to(work));
    if (answer.best.empty()) {
      ClusterAnswer const& first = answer.clusters.front();
      throw DoesNotFit{near_miss_text(first.result, *first.options)};
    }
    text = to_json(answer, question).dump();
  });
  return text;
}

std::string schedule_document(std::vector<std::string> const& words) {
  Command const command = schedule_command();
  return to_json(play_asked_schedule(CommandLine{command, words})).dump();
}

std::string validate_document(std::vector<std::string> const& words, nb::object const& progress) {
  Command const command = validate_command();
  std::ostringstream text;
  run_interruptibly(progress, [&](Work& work) {
    write_json(validate_as_asked(CommandLine{command, words}, reporting_to(work)), text);
  });
  return std::move(text).str();
}

/// The document, and what the command notes on standard error.
/// \throws std::runtime_error  if no row can be used.
std::pair<std::string, std::string> fit_document(std::vector<std::string> const& words,
                                                 nb::object const& progress) {
  Command const command = fit_command();
  FitOutcome outcome;
  run_interruptibly(progress, [&](Work& work) {
    outcome = fit_as_asked(CommandLine{command, words}, reporting_to(work));
  });
  if (outcome.failure) throw std::runtime_error{outcome.notes + *outcome.failure};
  return {outcome.document.dump(), outcome.notes};
}

/// Lines on what is left out and matters are notes.
Imported as_python_has_it(ImportedFile const& imported) {
  std::vector<std::string> notes = imported.notes;
  for (Omission const& omission : imported.left_out) {
    bool const matters = omission.effect != OmittedEffect::none && !omission.is_asked;
    if (matters) notes.push_back(text_of(omission));
  }
  return {imported.text, imported.content.dump(), std::move(notes)};
}

Imported imported_huggingface(std::vector<std::string> const& words) {
  Command const command = subcommand(import_command(), "huggingface");
  ImportedFile const imported = import_huggingface_as_asked(CommandLine{command, words});
  return as_python_has_it(imported);
}

Imported imported_megatron(std::vector<std::string> const& words) {
  Command const command = subcommand(import_command(), "megatron");
  ImportedFile const imported = import_megatron_as_asked(CommandLine{command, words});
  return as_python_has_it(imported);
}

Imported imported_framework(std::string const& name, std::vector<std::string> const& words) {
  Command const command = framework_import(name);
  return as_python_has_it(import_framework_as_asked(name, CommandLine{command, words}));
}

/// Writes the simulated iteration of a run as a trace file, with a row per op or per chunk.
void write_trace(Run const& run, std::string const& path, bool by_op) {
  RunConfig const& config = run.ready();
  TrainingPlan const plan = make_plan(as_settled(config.training));
  PlayedIteration const played{plan, config.system};
  RecordOptions options;
  options.detail = by_op ? TraceDetail::op : TraceDetail::chunk;
  options.command_line = "stagecraft.simulate";
  options.config = to_yaml(config);
  record_to_file(trace_to_write(path), played, options);
}

/// The page of `report`, written to the file that the words name.
void write_report(std::vector<std::string> const& words) {
  Command const command = report_command();
  read_and_run(command, words);
}

/// `explain`. Uses up to `jobs` threads.
std::string explain_document(Run const& run, int jobs, bool has_pairs) {
  RunConfig config = run.ready();  // with its warnings
  config.training = run.as_read().training;
  return to_json(explain(config, {.jobs = jobs, .has_pairs = has_pairs}), config).dump();
}

/// `layer`.
std::string layer_document(Run const& run) {
  TrainingPlan const plan = make_plan(as_settled(run.ready().training));
  CostModel const cost{run.ready().system, plan};
  return layers_document(plan, report_layers(plan, cost)).dump();
}

using Runs = std::vector<std::shared_ptr<Run const>>;
using SimulatedRuns = std::vector<std::shared_ptr<SimulatedRun const>>;

/// Threads for `threads` as Python's functions take them: 0 means all cores.
/// \throws CommandLineError  if there cannot be so many.
int threads_of(int threads) {
  constexpr int most = 1024;  // as of --jobs
  if (threads < 0 || threads > most) {
    throw CommandLineError{"threads", "'" + std::to_string(threads) + "'",
                           "a whole number from 0 (all cores) to " + std::to_string(most)};
  }
  if (threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::shared_ptr<Run const> load(std::string const& path,
                                std::optional<std::string> text,
                                std::vector<std::string> overrides) {
  return std::make_shared<Run const>(RunSource{path, std::move(text), std::move(overrides)});
}

SimulatedRuns simulate_many(Runs const& runs, int threads, nb::object const& progress) {
  SimulatedRuns results(runs.size());
  int const jobs = threads_of(threads);
  run_interruptibly(progress, [&](Work& work) {
    std::atomic<std::size_t> done = 0;
    auto const total = static_cast<double>(runs.size());
    parallel_for(jobs, runs.size(), [&](std::size_t i) {
      results[i] = std::make_shared<SimulatedRun const>(runs[i]);
      work.report("simulating", static_cast<double>(++done) / total);
    });
  });
  return results;
}

void bind_runs(nb::module_& module) {
  nb::class_<Run>(module, "Run")
      .def("with_", &Run::with, "overrides"_a, nb::call_guard<Unlocked>())
      .def("json", [](Run const& run) { return to_json(run.ready()).dump(); })
      .def("yaml", [](Run const& run) { return to_yaml(run.ready()); })
      .def("as_given", &Run::as_given)
      .def("warnings", [](Run const& run) { return run.ready().warnings; });
  module.def("load", &load, "path"_a, "text"_a.none(), "overrides"_a, nb::call_guard<Unlocked>());
}

void bind_simulations(nb::module_& module) {
  nb::class_<SimulatedRun>(module, "SimulatedRun")
      .def_prop_ro("iteration_seconds", &SimulatedRun::iteration_seconds)
      .def_prop_ro("peak_bytes", &SimulatedRun::peak_bytes)
      .def("played_document", &SimulatedRun::played_document, nb::call_guard<Unlocked>())
      .def(
          "document",
          [](SimulatedRun const& run, int threads) { return run.document(threads_of(threads)); },
          "threads"_a, nb::call_guard<Unlocked>())
      .def(
          "require_fit",
          [](SimulatedRun const& run, int threads) {
            std::string const excess = run.excess(threads_of(threads));
            if (!excess.empty()) throw DoesNotFit{excess};
          },
          "threads"_a, nb::call_guard<Unlocked>());
  module.def(
      "simulate",
      [](std::shared_ptr<Run const> run) {
        return std::make_shared<SimulatedRun const>(std::move(run));
      },
      "run"_a, nb::call_guard<Unlocked>());
  module.def("simulate_many", &simulate_many, "runs"_a, "threads"_a, "progress"_a.none());
}

/// What `make` returns, made so that Ctrl-C ends it.
template <typename Make>
std::string interruptibly(Make const& make) {
  std::string text;
  run_interruptibly(nb::none(), [&](Work&) { text = make(); });
  return text;
}

void bind_documents(nb::module_& module) {
  module.def(
      "explain",
      [](Run const& run, int threads, bool pairs) {
        return interruptibly([&] { return explain_document(run, threads_of(threads), pairs); });
      },
      "run"_a, "threads"_a, "pairs"_a);
  module.def(
      "layer", [](Run const& run) { return interruptibly([&] { return layer_document(run); }); },
      "run"_a);
  module.def("plan", &plan_document, "words"_a, "progress"_a.none());
  module.def(
      "schedule",
      [](std::vector<std::string> const& words) {
        return interruptibly([&] { return schedule_document(words); });
      },
      "words"_a);
  module.def("validate", &validate_document, "words"_a, "progress"_a.none());
  module.def("fit", &fit_document, "words"_a, "progress"_a.none());
  module.def("import_huggingface", &imported_huggingface, "words"_a, nb::call_guard<Unlocked>());
  module.def("import_framework", &imported_framework, "name"_a, "words"_a,
             nb::call_guard<Unlocked>());
  module.def("import_megatron", &imported_megatron, "words"_a, nb::call_guard<Unlocked>());
  // HDF5 is used by one thread at a time: the one that holds the interpreter's lock.
  module.def("write_trace", &write_trace, "run"_a, "path"_a, "by_op"_a);
  module.def("write_report", &write_report, "words"_a);
  module.def("read_trace", &trace_frames, "path"_a);
  module.def("sweep", &sweep_frame, "path"_a, "text"_a.none(), "words"_a, "progress"_a.none());
}

}  // namespace

}  // namespace stagecraft::python

NB_MODULE(_core, module) {
  using namespace stagecraft;
  make_forks_wait();
  python::register_errors();
  python::bind_runs(module);
  python::bind_simulations(module);
  python::bind_documents(module);
  module.def("version", [] { return program_version(); });
  module.def("config_folder", [] { return config_folder().string(); });
  module.def("run_file", [](std::string const& given) {
    return file_on_command_line(given, run_folders()).string();
  });
  module.def(
      "run_program",
      [](std::vector<std::string> const& words) { return run_program(planning_program(), words); },
      nanobind::arg("words"), nanobind::call_guard<python::Unlocked>());
}
