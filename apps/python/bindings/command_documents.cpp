#include "apps/python/bindings/command_documents.hpp"

#include <chrono>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "apps/program/output_paths.hpp"
#include "apps/program/run_words.hpp"
#include "apps/python/bindings/errors.hpp"
#include "apps/python/bindings/interruptible.hpp"
#include "apps/stagecraft/command_results.hpp"
#include "apps/stagecraft/commands.hpp"
#include "apps/stagecraft/near_miss.hpp"
#include "apps/stagecraft/plan/plan_output.hpp"
#include "apps/stagecraft/schedule/asked_schedule.hpp"
#include "libsim/engine/record.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/validation/validation_output.hpp"

namespace stagecraft::python {

namespace nb = nanobind;

namespace {

CommandProgress reporting_to(Work& work) {
  return [&work](char const* part, double share, double /*count*/) { work.report(part, share); };
}

Command subcommand(Command const& command, std::string_view name) {
  for (Command const& one : command.subcommands) {
    if (one.name == name) return one;
  }
  throw std::invalid_argument{"no subcommand '" + std::string{name} + "'"};
}

}  // namespace

std::string plan_document(std::vector<std::string> const& words, nb::object const& progress) {
  Command const command = plan_command();
  std::string text;
  run_interruptibly(progress, [&](Work& work) {
    PlanOptions const options = read_plan_options(CommandLine{command, words});
    auto const begin = std::chrono::steady_clock::now();
    SearchResult const result = search_as_asked(options, reporting_to(work));
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
    if (result.best.empty()) throw DoesNotFit{near_miss_text(result, options)};
    text = to_json(result, options, seconds.count()).dump();
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

Imported imported_huggingface(std::vector<std::string> const& words) {
  Command const command = subcommand(import_command(), "huggingface");
  ImportedFile const imported = import_huggingface_as_asked(CommandLine{command, words});
  return {imported.text, imported.content.dump(), imported.notes};
}

Imported imported_megatron(std::vector<std::string> const& words) {
  Command const command = subcommand(import_command(), "megatron");
  ImportedFile const imported = import_megatron_as_asked(CommandLine{command, words});
  return {imported.text, imported.content.dump(), imported.notes};
}

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

void write_report(std::vector<std::string> const& words) {
  Command const command = report_command();
  read_and_run(command, words);
}

}  // namespace stagecraft::python
