#include <malloc.h>

#include <limits>

#include "apps/program/program.hpp"
#include "apps/program/program_features.hpp"
#include "apps/stagecraft-exec/commands.hpp"
#include "libexec/kernels/openblas.hpp"

namespace stagecraft {

namespace {

/// OpenBLAS as it is loaded; CUDA, NCCL and MPI as they were built with.
std::string executor_features() {
  return program_features() + ", " + openblas_version() + ", " STAGECRAFT_FEATURES;
}

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
  using namespace stagecraft;
  keep_freed_memory();
  return run_program(
      {.name = "stagecraft-exec",
       .purpose = "Executes training plans, measures them, calibrates systems.",
       .examples = "  stagecraft-exec run configs/paper/22b-present-twin.yaml --steps 3\n",
       .commands = {calibrate_command(), devices_command(), measure_command(), run_command()},
       .features = executor_features},
      {argv + 1, argv + argc});
}
