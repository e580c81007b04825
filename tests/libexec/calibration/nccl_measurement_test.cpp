// NCCL's part of a calibration on the emulation, whose virtual time is 5 us and 10 ps a byte of the
// larger buffer, whatever the ranks.
#include <catch2/catch.hpp>

#include "libexec/calibration/collective_measurement.hpp"
#include "tests/libexec/cuda_emulation/emulation.hpp"

namespace stagecraft::nccl_measurement_test {
namespace {

constexpr NcclSizes sizes{.smallest = 1 << 10, .largest = 1 << 16};

/// What the emulation's clock says of a call.
double expected_seconds(std::int64_t bytes) { return 5e-6 + 1e-11 * static_cast<double>(bytes); }

void require_table(CollectiveCost const& cost, int ranks) {
  REQUIRE(cost.ranks == ranks);
  REQUIRE(cost.table.size() == 4);
  std::int64_t bytes = 1 << 10;
  for (CollectivePoint const& point : cost.table) {
    CAPTURE(point.size.count());
    REQUIRE(point.size.count() == bytes);
    REQUIRE(point.duration.value == Approx(expected_seconds(bytes)).epsilon(1e-6));
    bytes *= 4;
  }
}

TEST_CASE("collectives and messages between GPUs are measured with their sizes", "[nccl]") {
  int const ranks = GENERATE(2, 4);
  CAPTURE(ranks);
  emulation::set_device_count(ranks);
  NcclCosts const costs = measure_nccl(ranks, sizes);
  emulation::set_device_count(1);
  require_table(costs.all_reduce, ranks);
  require_table(costs.all_gather, ranks);
  require_table(costs.reduce_scatter, ranks);
  REQUIRE(costs.message.table.empty());
  REQUIRE(costs.message.latency.value == Approx(5e-6).epsilon(1e-3));
  REQUIRE(costs.message.bandwidth.value == Approx(1e11).epsilon(1e-3));
}

TEST_CASE("a GPU that cannot take part ends the measurement of all", "[nccl]") {
  emulation::set_device_count(4);
  emulation::set_memory_capacity(3 << 16);  // of three of the four
  REQUIRE_THROWS_WITH(measure_nccl(4, sizes), Catch::Contains("cudaMalloc"));
  emulation::set_memory_capacity(std::size_t{16} << 30U);
  emulation::set_device_count(1);
}

}  // namespace
}  // namespace stagecraft::nccl_measurement_test
