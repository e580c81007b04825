#include "apps/stagecraft/plan/plan_launchable.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/program/command_line.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/import/megatron/megatron_gaps.hpp"

namespace stagecraft {

void read_launchable(std::string const& text, PlanOptions& options) {
  MegatronVersion const version = text == name_of(MegatronVersion::of_2022)
                                      ? MegatronVersion::of_2022
                                      : MegatronVersion::current;
  options.launchable = version;
  options.request.is_wanted = [version](TrainingConfig const& config) {
    return is_launchable(config, version);
  };
  // The schedules that its flags name.
  std::vector<ScheduleKind>& schedules = options.request.filter.schedule;
  if (schedules.empty()) schedules = {ScheduleKind::one_f_one_b, ScheduleKind::interleaved};
  Software const& stack = options.request.system.software;
  if (described_stack(stack) != text) {
    options.warnings.push_back("--launchable " + text +
                               ": times and memory are those of the software '" + stack.name +
                               "'; --software " + text + " has those of that framework");
  }
  auto const is_of_vocabulary = [](std::string const& gap) {
    return gap.starts_with("model.vocabulary");
  };
  std::string gaps;
  for (std::string const& gap : megatron_gaps_of_model(options.request.base, version)) {
    if (is_of_vocabulary(gap)) {  // files of the user's own say it
      options.warnings.push_back("--launchable " + text +
                                 " cannot run this model as it is: " + gap);
    } else {
      gaps += (gaps.empty() ? "" : "; ") + gap;
    }
  }
  if (gaps.empty()) return;
  MegatronVersion const other =
      version == MegatronVersion::current ? MegatronVersion::of_2022 : MegatronVersion::current;
  bool const other_can =
      std::ranges::all_of(megatron_gaps_of_model(options.request.base, other), is_of_vocabulary);
  throw CommandLineError{"--launchable",
                         "'" + text + "', which can run no plan of this model (" + gaps + ")",
                         std::string{other_can ? name_of(other) + std::string{", or "} : ""} +
                             "no --launchable: the flags of a plan then say what they leave out"};
}

void seek_launchable(PlanOptions& options) {
  std::string const stack{described_stack(options.request.system.software)};
  MegatronVersion const version =
      stack == "megatron-core" ? MegatronVersion::current : MegatronVersion::of_2022;
  if (!stack.starts_with("megatron-")) return;
  options.stack_version = version;
  for (std::string const& gap : megatron_gaps_of_model(options.request.base, version)) {
    if (gap.starts_with("model.vocabulary")) continue;  // files of the user's own say it
    options.stack_gap = gap;
    return;
  }
  options.request.is_launchable = [version](TrainingConfig const& config) {
    return is_launchable(config, version);
  };
}

}  // namespace stagecraft
