#include "apps/stagecraft-exec/program_features.hpp"

#include "libexec/kernels/openblas.hpp"
#include "libsim/trace/program_version.hpp"

namespace stagecraft {

std::string executor_features() {
  return program_features() + ", " + openblas_version() + ", " STAGECRAFT_FEATURES;
}

}  // namespace stagecraft
