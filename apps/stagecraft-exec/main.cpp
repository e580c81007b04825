#include <malloc.h>

#include <array>
#include <limits>
#include <string_view>

#include "apps/stagecraft-exec/calibrate_command.hpp"
#include "apps/stagecraft-exec/devices_command.hpp"
#include "apps/stagecraft-exec/measure_command.hpp"
#include "apps/stagecraft-exec/program_features.hpp"
#include "apps/stagecraft-exec/run_command.hpp"
#include "apps/stagecraft/program.hpp"

namespace stagecraft {

namespace {

constexpr std::array commands{
    Command{"calibrate", "measure this machine; a system file with provenance", calibrate_command},
    Command{"devices", "what can run here, and why not", devices_command},
    Command{"measure", "one layer on the device at hand, in the five cases of the paper's table 4",
            measure_command},
    Command{"run", "run the plan of a run file for real", run_command},
};

constexpr Program program{"stagecraft-exec",
                          "Executes training plans, measures them, calibrates systems.",
                          "  stagecraft-exec run configs/paper/22b-present-twin.yaml --steps 3\n",
                          commands, executor_features};

/// Tensors come and go with every op. Memory that went back to the system in between would cost
/// page faults when it comes again: a quarter of an iteration with full recompute.
void keep_freed_memory() {
#ifdef M_TRIM_THRESHOLD
  constexpr int most_from_heap = 32 << 20;  // glibc accepts no more
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_MMAP_THRESHOLD, most_from_heap);
#endif
}

}  // namespace

}  // namespace stagecraft

int main(int argc, char** argv) {
  stagecraft::keep_freed_memory();
  return stagecraft::run_program(stagecraft::program, {argv + 1, argv + argc});
}
