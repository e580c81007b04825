#include "apps/program/program.hpp"
#include "apps/program/run_program.hpp"
#include "apps/stagecraft-exec/commands.hpp"
#include "libexec/kernels/cpu/openblas.hpp"

namespace stagecraft {

namespace {

/// OpenBLAS as it is loaded; CUDA, NCCL and MPI as they were built with.
std::string executor_features() {
  return program_features() + ", " + openblas_version() + ", " STAGECRAFT_FEATURES;
}

}  // namespace

}  // namespace stagecraft

int main(int argc, char** argv) {
  using namespace stagecraft;
  return run_program(
      {.name = "stagecraft-exec",
       .purpose = "Executes training plans, measures them, calibrates systems.",
       .examples = "  stagecraft-exec run configs/paper/22b-present-twin.yaml --steps 3\n",
       .commands = {calibrate_command(), devices_command(), measure_command(), run_command()},
       .features = executor_features},
      {argv + 1, argv + argc});
}
