#include "libsim/cost/gemm_time.hpp"

#include <catch2/catch.hpp>

#include "tests/libsim/invented_system.hpp"

namespace stagecraft::gemm_time_test {
namespace {

// 4 processors of 25 TFLOP/s and 1 TB/s: a tile of 256x128 takes 2 x 256 x 128 x k / 25e12 s.
double tile(std::int64_t k) { return 2.0 * 256 * 128 * static_cast<double>(k) / 25e12; }

double seconds(GemmShape const& gemm, System const& system, Bytes traffic = {}, Bytes output = {}) {
  return gemm_time({.shape = gemm}, traffic, output,
                   system.accelerator.peak.value.at(Precision::fp16), system)
      .value;
}

/// Of groups with rows of their own.
double seconds(GemmShape const& gemm, GroupRows const& rows) {
  System const system = invented_system();
  return gemm_time({.shape = gemm, .rows = &rows}, {}, {},
                   system.accelerator.peak.value.at(Precision::fp16), system)
      .value;
}

TEST_CASE("eight large tiles on four processors take two waves", "[cost]") {
  REQUIRE(seconds({.batch = 1, .m = 512, .n = 512, .k = 1000}, invented_system()) ==
          Approx(2 * tile(1000)));
}

TEST_CASE("one row more than a tile costs a whole wave", "[cost]") {
  // NVIDIA, Matrix Multiplication Background, section 4: 1024 x 128 is 4 tiles of 256 x 128; a
  // 1025th row makes 5 of them, 9 x 1 of 128 x 128 (3 waves of half a tile each: less).
  System const system = invented_system();
  REQUIRE(seconds({.batch = 1, .m = 1024, .n = 128, .k = 1000}, system) == Approx(tile(1000)));
  REQUIRE(seconds({.batch = 1, .m = 1025, .n = 128, .k = 1000}, system) ==
          Approx(1.5 * tile(1000)));
}

TEST_CASE("a single element costs a whole tile, the smallest one", "[cost]") {
  REQUIRE(seconds({.batch = 1, .m = 1, .n = 1, .k = 1000}, invented_system()) ==
          Approx(tile(1000) / 2));
}

TEST_CASE("groups of a product have tiles for their own rows", "[cost]") {
  // Five tiles of 128 x 128 on four processors are two waves; one expert with all rows has one.
  GemmShape const five{.batch = 5, .m = 1, .n = 1, .k = 1000};
  REQUIRE(seconds(five, {1, 1, 1, 1, 1}) == Approx(2 * tile(1000) / 2));
  REQUIRE(seconds(five, {0, 0, 5, 0, 0}) == Approx(tile(1000) / 2));
  // 129 rows are two small tiles, 127 are one: six in two waves, where four groups of 128 take one.
  GemmShape const four{.batch = 4, .m = 128, .n = 128, .k = 1000};
  REQUIRE(seconds(four, {129, 129, 127, 127}) == Approx(2 * tile(1000) / 2));
  REQUIRE(seconds(four, {128, 128, 128, 128}) == Approx(tile(1000) / 2));
}

TEST_CASE("sums over different numbers of rows take the longest, or their mean by waves",
          "[cost]") {
  GemmShape const one{
      .batch = 2, .m = 128, .n = 128, .k = 2000, .transpose_a = true, .accumulate = true};
  REQUIRE(seconds(one, {3000, 1000}) == Approx(tile(3000) / 2));
  // Sixteen tiles of 256 x 128 on four processors: four waves of 2000 steps on average.
  GemmShape const many{
      .batch = 2, .m = 512, .n = 512, .k = 2000, .transpose_a = true, .accumulate = true};
  REQUIRE(seconds(many, {3000, 1000}) == Approx(4 * tile(2000)));
  REQUIRE(seconds(many, {4000, 0}) == Approx(2 * tile(4000)));
}

TEST_CASE("small tiles lose the share of their rate that the system says", "[cost]") {
  System system = invented_system();
  system.calibration.gemm_small_tile.value = 0.8;
  REQUIRE(seconds({.batch = 1, .m = 1, .n = 1, .k = 1000}, system) == Approx(tile(1000) / 2 / 0.8));
}

TEST_CASE("tiles of a batch share the waves", "[cost]") {
  // 6 products of one large tile each: two waves on 4 processors, three of small ones would cost
  // more.
  REQUIRE(seconds({.batch = 6, .m = 256, .n = 128, .k = 500}, invented_system()) ==
          Approx(1.5 * tile(500)));
}

TEST_CASE("every wave pays the prologue, every kernel its launch", "[cost]") {
  System system = invented_system();
  system.calibration.gemm_tile_prologue.value = {1e-6};
  system.calibration.kernel_launch.value = {3e-6};
  // Two waves of large tiles: 3 + 2 (1 + tile); four of small ones would pay four prologues.
  REQUIRE(seconds({.batch = 1, .m = 512, .n = 512, .k = 1000}, system) ==
          Approx(3e-6 + 2 * (1e-6 + tile(1000))));
}

TEST_CASE("the epilogue's traffic comes on top of the main loop", "[cost]") {
  System const system = invented_system();
  GemmShape const gemm{.batch = 1, .m = 512, .n = 512, .k = 1000};
  REQUIRE(seconds(gemm, system, Bytes{2'000'000}, Bytes{1'000'000}) ==
          Approx(2 * tile(1000) + 1e-6));
}

TEST_CASE("no product is faster than its bytes at the streaming rate", "[cost]") {
  System system = invented_system();
  system.calibration.stream_efficiency.value = 0.5;
  GemmShape const gemm{.batch = 1, .m = 512, .n = 512, .k = 1};
  REQUIRE(seconds(gemm, system, Bytes{10'000'000}, Bytes{0}) == Approx(10e6 / 0.5e12));
}

TEST_CASE("no product is faster than its FLOPs at peak", "[cost]") {
  System const system = invented_system();
  for (std::int64_t m : {1, 77, 128, 300, 4096}) {
    for (std::int64_t n : {1, 100, 129, 2000}) {
      for (std::int64_t batch : {1, 3, 96}) {
        GemmShape const gemm{.batch = batch, .m = m, .n = n, .k = 640};
        REQUIRE(seconds(gemm, system) >= static_cast<double>(gemm.flops()) / 100e12 * (1 - 1e-12));
      }
    }
  }
}

TEST_CASE("swapping rows and columns changes nothing", "[cost]") {
  System const system = lossy_system();
  for (std::int64_t m : {1, 200, 1000}) {
    for (std::int64_t n : {128, 300, 5000}) {
      REQUIRE(seconds({.batch = 2, .m = m, .n = n, .k = 64}, system) ==
              seconds({.batch = 2, .m = n, .n = m, .k = 64}, system));
    }
  }
}

}  // namespace
}  // namespace stagecraft::gemm_time_test
