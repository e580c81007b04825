#pragma once

#include <string>

namespace stagecraft {

/// Of the OpenBLAS that is loaded: `OpenBLAS 0.3.21`.
std::string openblas_version();

/// \throws std::runtime_error  unless the OpenBLAS that is loaded is a threaded build: the serial
/// one computes wrong products when several threads call it at once, as the threads of ranks do.
void require_threaded_openblas();

/// Threads that OpenBLAS multiplies matrices with; of the whole process.
void set_openblas_threads(int threads);

/// Sets OpenBLAS's threads to one for a scope, where the callers are the threads.
class SingleThreadedOpenBlas {
 public:
  SingleThreadedOpenBlas();
  SingleThreadedOpenBlas(SingleThreadedOpenBlas const&) = delete;
  SingleThreadedOpenBlas& operator=(SingleThreadedOpenBlas const&) = delete;
  SingleThreadedOpenBlas(SingleThreadedOpenBlas&&) = delete;
  SingleThreadedOpenBlas& operator=(SingleThreadedOpenBlas&&) = delete;
  ~SingleThreadedOpenBlas();

 private:
  int before_;
};

}  // namespace stagecraft
