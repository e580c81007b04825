#include "libexec/calibration/kernel_measurement.hpp"

#include <catch2/catch.hpp>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/calibration/collective_measurement.hpp"
#include "libsim/cost/measured_time.hpp"

namespace stagecraft::kernel_measurement_test {
namespace {

TEST_CASE("a line through exact samples is found", "[calibration]") {
  // 3 us and 2 GB/s.
  std::vector<KernelSample> samples;
  for (double const bytes : {1e3, 1e5, 4e6}) samples.push_back({bytes, 3e-6 + bytes / 2e9});
  KernelCost const cost = fit_kernel(samples);
  REQUIRE(cost.latency.value == Approx(3e-6));
  REQUIRE(cost.bandwidth.value == Approx(2e9));
}

TEST_CASE("no fitted part is negative", "[calibration]") {
  KernelCost const falling = fit_kernel({{1e3, 5e-6}, {1e6, 4e-6}});
  REQUIRE(falling.latency.value > 0);
  REQUIRE(falling.bandwidth.value > 0);
  KernelCost const steep = fit_kernel({{1e6, 1e-6}, {2e6, 4e-6}});
  REQUIRE(steep.latency.value == 0);
  REQUIRE(steep.bandwidth.value > 0);
  KernelCost const single = fit_kernel({{1e6, 1e-3}});
  REQUIRE(single.latency.value + 1e6 / single.bandwidth.value == Approx(1e-3));
}

TEST_CASE("products between the measured shapes are interpolated, others take the nearest rate",
          "[calibration]") {
  MeasuredDevice measured;
  measured.gemm.value[Precision::fp32][GemmForm::nt] = {
      .m = {16, 64}, .n = {64}, .k = {64}, .rates = {{1e9}, {4e9}}};
  auto const seconds = [&](std::int64_t m) {
    Op op;
    op.kind = OpKind::gemm;
    op.type = ElementType::f32;
    op.attributes = GemmAttributes{{.batch = 3, .m = m, .n = 64, .k = 64, .transpose_b = true},
                                   ElementType::f32,
                                   ElementType::f32,
                                   ElementType::f32};
    return measured_time(measured, op)->value;
  };
  double const flops_a_row = 3 * 2.0 * 64 * 64;
  REQUIRE(seconds(16) == Approx(16 * flops_a_row / 1e9));
  REQUIRE(seconds(64) == Approx(64 * flops_a_row / 4e9));
  REQUIRE(seconds(32) == Approx(32 * flops_a_row / 2e9));  // half way in the logarithm
  REQUIRE(seconds(8) == Approx(8 * flops_a_row / 1e9));
  REQUIRE(seconds(1024) == Approx(1024 * flops_a_row / 4e9));
  Op other;
  other.kind = OpKind::gelu;
  REQUIRE_FALSE(measured_time(measured, other).has_value());
}

TEST_CASE("flash attention has a rate of arithmetic, no more than a core can have",
          "[calibration][long]") {
  ExecutionParts parts;
  parts.make_backend = [](KernelNeeds const& needs) { return make_cpu_backend(needs, {}); };
  FlashRates const rates = measure_flash(parts, Precision::fp32);
  // Two fused multiply-adds of 16 lanes a cycle at 6 GHz.
  for (FlopsPerSecond const rate : {rates.forward, rates.backward}) {
    REQUIRE(rate.value > 1e6);
    REQUIRE(rate.value < 4 * 16 * 6e9);
  }
}

TEST_CASE("collectives between threads have a latency and a bandwidth", "[calibration]") {
  CollectiveCost const cost = measure_thread_collective(OpKind::all_reduce, 2);
  REQUIRE(cost.latency.value >= 0);
  REQUIRE(cost.bandwidth.value > 1e6);
}

}  // namespace
}  // namespace stagecraft::kernel_measurement_test
