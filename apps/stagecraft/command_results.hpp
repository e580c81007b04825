#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/program/command_line.hpp"
#include "apps/stagecraft/plan/plan_answer.hpp"
#include "apps/stagecraft/plan/plan_question.hpp"
#include "apps/stagecraft/sweep/sweep_options.hpp"
#include "apps/stagecraft/sweep/sweep_output.hpp"
#include "libsim/import/omissions.hpp"
#include "libsim/sweep/sweep.hpp"
#include "libsim/validation/validation.hpp"

namespace stagecraft {

// What commands compute, for callers that do not want it printed. Each is in the source of its
// command, and throws what the command would report.

/// Called with the part of the work, the share of it that is done (0 to 1), and how many of what
/// the part counts. What it throws ends the work.
using CommandProgress = std::function<void(char const* part, double share, double count)>;

/// `plan`. The question must outlive the answer.
/// \throws CommandLineError  if no run at all is legal.
PlanAnswer plan_as_asked(PlanQuestion const& question, CommandProgress const& progress);

/// `validate`.
Validation validate_as_asked(CommandLine const& line, CommandProgress const& progress);

/// The outcome of `fit`.
struct FitOutcome {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();  ///< of `fit --json`
  std::string text{};                                                  ///< the same for people
  std::string notes{};                   ///< lines, for standard error
  std::vector<std::string> files{};      ///< that were written
  std::optional<std::string> failure{};  ///< why nothing was fitted
};
FitOutcome fit_as_asked(CommandLine const& line, CommandProgress const& progress);

/// A file made of another program's configuration.
struct ImportedFile {
  std::string text;
  std::vector<std::string> notes;    ///< what was assumed, approximated or ignored
  nlohmann::ordered_json content{};  ///< the keys of the file
  std::vector<Omission> left_out{};
};
ImportedFile import_huggingface_as_asked(CommandLine const& line);
ImportedFile import_megatron_as_asked(CommandLine const& line);
/// `name` is that of the framework's import.
ImportedFile import_framework_as_asked(std::string_view name, CommandLine const& line);

/// `sweep`, of a sweep that was read, neither merging nor as a dry run.
SweepOutcome sweep_as_asked(Sweep const& sweep,
                            SweepOptions const& options,
                            CommandProgress const& progress);

}  // namespace stagecraft
