#pragma once

#include <string>

namespace stagecraft {

/// The version of the OpenBLAS that is loaded: `OpenBLAS 0.3.21`.
std::string openblas_version();

/// \throws std::runtime_error  unless the OpenBLAS that is loaded is a threaded build. The serial
///         one computes wrong products if several threads call it at once, as the ranks' threads
///         do.
void require_threaded_openblas();

/// Sets the number of threads of OpenBLAS for the whole process.
void set_openblas_threads(int threads);

/// Sets the number of OpenBLAS's threads to one for a scope in which its callers are threads.
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
