#include <catch2/catch.hpp>
#include <chrono>
#include <vector>

#include "libexec/backends/cuda_backend.hpp"
#include "libexec/calibration/kernel_measurement.hpp"
#include "libexec/executor/clocks.hpp"

// How products are measured on a device, here an emulated one.

namespace stagecraft::device_load_test {
namespace {

ExecutionParts emulated_parts() {
  ExecutionParts parts;
  parts.make_backend = [](KernelNeeds const& needs) { return make_cuda_backend(needs, 0); };
  parts.device = DeviceKind::cuda;
  return parts;
}

TEST_CASE("before each queue of products a device has a load", "[calibration]") {
  MeasurementScale scale;
  scale.extents = {32, 64};
  scale.operand_bytes = std::size_t{1} << 20;
  auto const backend = emulated_parts().make_backend({.types = {activation_type(Precision::fp32)}});
  std::vector<double> loads;
  SteadyMedians medians;
  std::vector<std::size_t> loads_of_form;
  measure_gemm(
      *backend, Precision::fp32, scale, VirtualClock{true}, medians,
      [&](GemmForm /*form*/, GemmGrid const& grid) {
        REQUIRE(grid.rates.size() == 8);
        loads_of_form.push_back(loads.size());
      },
      [&](double seconds) { loads.push_back(seconds); });
  // A form is given before the next one is measured.
  REQUIRE(loads_of_form.size() == 3);
  REQUIRE(loads_of_form[0] < loads_of_form[1]);
  REQUIRE(loads_of_form[1] < loads_of_form[2]);
  // 2 x 2 x 2 shapes of each form, at least 3 queues of a shape. A queue is a millisecond, a
  // product if that takes longer, or 50 of them.
  REQUIRE(loads.size() >= std::size_t{3} * 8 * 3);
  REQUIRE(loads.size() % 3 == 0);
  for (double const seconds : loads) REQUIRE(seconds > 0);
}

TEST_CASE("a device runs layers for as long as it is to", "[calibration]") {
  MeasurementScale scale;
  scale.load = {.hidden = 64, .heads = 4, .sequence = 32, .micro = 1};
  DeviceLoad const load = layer_load(emulated_parts(), scale, Precision::fp32);
  auto const begin = std::chrono::steady_clock::now();
  load(0.1);
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  REQUIRE(took.count() > 0.03);  // layers differ from the one that was timed
}

}  // namespace
}  // namespace stagecraft::device_load_test
