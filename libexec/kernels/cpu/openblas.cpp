#include "libexec/kernels/cpu/openblas.hpp"

#include <cblas.h>

#include <stdexcept>
#include <string>

namespace stagecraft {

namespace {

/// The name, version and build options. OpenBLAS writes the text again in each call, into one
/// buffer for all threads.
std::string const& config_text() {
  static std::string const text = openblas_get_config();
  return text;
}

}  // namespace

std::string openblas_version() {
  std::string const& config = config_text();
  return config.substr(0, config.find(' ', config.find(' ') + 1));
}

void require_threaded_openblas() {
  if (openblas_get_parallel() != 0) return;
  throw std::runtime_error("OpenBLAS is a serial build (" + config_text() +
                           "), unsafe with several threads; "
                           "install libopenblas0-pthread, or have it loaded first");
}

void set_openblas_threads(int threads) { openblas_set_num_threads(threads); }

SingleThreadedOpenBlas::SingleThreadedOpenBlas() : before_{openblas_get_num_threads()} {
  if (before_ != 1) openblas_set_num_threads(1);
}

SingleThreadedOpenBlas::~SingleThreadedOpenBlas() {
  if (before_ != 1) openblas_set_num_threads(before_);
}

}  // namespace stagecraft
