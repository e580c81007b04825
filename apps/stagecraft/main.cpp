#include <array>
#include <string_view>

#include "apps/stagecraft/compare_command.hpp"
#include "apps/stagecraft/explain_command.hpp"
#include "apps/stagecraft/export_command.hpp"
#include "apps/stagecraft/import_command.hpp"
#include "apps/stagecraft/layer_command.hpp"
#include "apps/stagecraft/plan_command.hpp"
#include "apps/stagecraft/program.hpp"
#include "apps/stagecraft/report_command.hpp"
#include "apps/stagecraft/reproduce_command.hpp"
#include "apps/stagecraft/schedule_command.hpp"
#include "apps/stagecraft/simulate_command.hpp"
#include "apps/stagecraft/sweep_command.hpp"
#include "apps/stagecraft/system_command.hpp"
#include "libsim/trace/program_version.hpp"

namespace stagecraft {

namespace {

constexpr std::array commands{
    Command{"simulate", "per-stage memory and iteration time of a run file", simulate_command},
    Command{"explain", "why the fullest stage is full, where time goes, what each change would do",
            explain_command},
    Command{"plan", "the fastest layouts, schedules and recompute policies that fit", plan_command},
    Command{"sweep", "the cross product of lists of values, into HDF5 and CSV", sweep_command},
    Command{"reproduce", "the paper's tables and figures, predicted beside published",
            reproduce_command},
    Command{"layer", "one layer, op by op: FLOPs, bytes, saved bytes, time", layer_command},
    Command{"schedule", "a pipeline schedule alone: order, makespan, bubble, chunks in flight",
            schedule_command},
    Command{"compare", "two traces of one plan: memory, times, where the difference comes from",
            compare_command},
    Command{"report", "traces as one HTML page: timeline, memory over time, summary",
            report_command},
    Command{"export", "a trace in the formats of other programs", export_command},
    Command{"import", "a model or run file from a config.json or from Megatron-LM's flags",
            import_command},
    Command{"system", "the constants of a system, each with its source", system_command},
};

constexpr Program program{
    "stagecraft", "Predicts memory and iteration time of pipeline-parallel Transformer training.",
    "  stagecraft simulate configs/paper/175b-present.yaml\n"
    "  stagecraft schedule --schedule interleaved -p 4 -n 8 -m 2\n",
    commands, program_features};

}  // namespace

}  // namespace stagecraft

int main(int argc, char** argv) {
  return stagecraft::run_program(stagecraft::program, {argv + 1, argv + argc});
}
