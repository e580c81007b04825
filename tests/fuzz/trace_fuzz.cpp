#include <cstddef>
#include <cstdint>

#include "libsim/report/comparison.hpp"
#include "libsim/report/comparison_text.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_reader.hpp"

/// HDF5 1.10 leaks some bytes for each file that it refuses, and asks for as much memory as a file
/// says it needs; it takes no for an answer.
extern "C" char const* __asan_default_options() {  // NOLINT: the sanitizer's name
  return "detect_leaks=0:allocator_may_return_null=1";
}

/// The input is a trace file. What can be read is compared with itself, and is equal.
///
/// HDF5 parses the file first, and version 1.10 is not proof against files made to attack it: what
/// ends inside libhdf5 is its own.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace stagecraft;
  try {
    TraceReader const a{{data, size}, "a.h5"};
    TraceReader const b{{data, size}, "b.h5"};
    Comparison const comparison = compare(a, b, PlanCheck::same_plan);
    if (comparison.iteration_seconds[0] != comparison.iteration_seconds[1]) __builtin_trap();
    if (comparison_tables(comparison, 80).empty() || to_json(comparison).empty()) __builtin_trap();
  } catch (TraceFileError const&) {
    return 0;
  }
  return 0;
}
