#define CATCH_CONFIG_RUNNER
#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <iostream>

/// Without a device nothing runs, and CTest counts the test as skipped (SKIP_RETURN_CODE).
int main(int argc, char** argv) {
  constexpr int skipped = 77;
  Catch::Session session;
  if (int const wrong = session.applyCommandLine(argc, argv); wrong != 0) return wrong;
  auto const& config = session.config();
  bool const only_lists = config.listTests() || config.listTestNamesOnly() || config.listTags() ||
                          config.listReporters();
  int devices = 0;
  cudaError_t const status = cudaGetDeviceCount(&devices);
  if (!only_lists && (status != cudaSuccess || devices == 0)) {
    std::cerr << "skipped: no CUDA device: " << cudaGetErrorString(status) << '\n';
    return skipped;
  }
  return session.run() == 0 ? 0 : 1;
}
