// Threads of a block: places where they meet, shared memory, order, limits, mistakes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "tests/libexec/cuda/device_objects.hpp"
#include "tests/libexec/cuda_emulation/emulation.hpp"
#include "tests/libexec/cuda_emulation/test_kernels.hpp"

namespace stagecraft::emulation::test {
namespace {

using namespace stagecraft::test;

std::vector<float> counted(std::size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 0.F);
  return values;
}

TEST_CASE("sums through shared memory are right for every seed, and wrong without barriers",
          "[emulation]") {
  constexpr unsigned blocks = 3;
  DeviceArray<float> const values{counted(blocks * 256)};
  DeviceArray<float> sums{blocks};
  Stream const stream;
  // 0 + ... + 255, and 256 * 256 more for each block.
  std::vector<float> const expected{32640, 98176, 163712};
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    set_seed(seed);
    require(block_sums(values.data(), sums.data(), blocks, Barriers::present, stream));
    REQUIRE(sums.values() == expected);
    require(block_sums(values.data(), sums.data(), blocks, Barriers::missing, stream));
    wrong += sums.values() != expected ? 1 : 0;
  }
  CHECK(wrong == 50);
}

TEST_CASE("sums by shuffles are right", "[emulation]") {
  DeviceArray<float> const values{counted(384)};
  DeviceArray<float> by_xor{12};
  DeviceArray<float> by_down{12};
  Stream const stream;
  std::vector<float> expected(12);
  // 0 + ... + 31, and 32 * 32 more for each warp.
  for (std::size_t i = 0; i < 12; ++i) expected[i] = 496.F + 1024.F * static_cast<float>(i);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    set_seed(seed);
    require(warp_sums(values.data(), by_xor.data(), by_down.data(), stream));
    REQUIRE(by_xor.values() == expected);
    REQUIRE(by_down.values() == expected);
  }
}

TEST_CASE("shuffles get the values of the lanes that the programming guide names", "[emulation]") {
  DeviceArray<int> received{64};
  Stream const stream;
  auto const run = [&](Shuffle kind, int operand, int width) {
    require(shuffled(kind, operand, width, received.data(), stream));
    return received.values();
  };
  auto const from = [](auto const& lane_of) {
    std::vector<int> result;
    for (int i = 0; i < 64; ++i) result.push_back(i / 32 * 32 + lane_of(i % 32));
    return result;
  };
  CHECK(run(Shuffle::exclusive_or, 3, 32) == from([](int lane) { return lane ^ 3; }));
  CHECK(run(Shuffle::index, 9, 32) == from([](int) { return 9; }));
  CHECK(run(Shuffle::index, 9, 8) == from([](int lane) { return lane / 8 * 8 + 1; }));
  CHECK(run(Shuffle::down, 2, 32) == from([](int lane) { return lane < 30 ? lane + 2 : lane; }));
  CHECK(run(Shuffle::down, 2, 4) == from([](int lane) { return lane % 4 < 2 ? lane + 2 : lane; }));
  CHECK(run(Shuffle::up, 2, 4) == from([](int lane) { return lane % 4 < 2 ? lane : lane - 2; }));
}

TEST_CASE("every thread of a grid of three dimensions runs once", "[emulation]") {
  DeviceArray<int> numbers{12 * 24};
  Stream const stream;
  require(number_threads(numbers.data(), stream));
  std::vector<int> expected(numbers.size());
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(numbers.values() == expected);
}

TEST_CASE("a block finds NaN in its shared memory, and nothing of the block before it",
          "[emulation]") {
  DeviceArray<float> found{5 * 32};
  Stream const stream;
  require(read_shared(found.data(), 5, stream));
  auto const values = found.values();
  CHECK(std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x); }));
}

TEST_CASE("dynamic shared memory holds NaN, and more than 48 KiB of it must be asked for",
          "[emulation]") {
  DeviceArray<float> found{5 * 32};
  Stream const stream;
  require(read_dynamic_shared(found.data(), 5, 0, 48 << 10, stream));
  auto const values = found.values();
  CHECK(std::all_of(values.begin(), values.end(), [](float x) { return std::isnan(x); }));
  CHECK(read_dynamic_shared(found.data(), 5, 0, (48 << 10) + 1, stream) ==
        cudaErrorInvalidConfiguration);
  CHECK(read_dynamic_shared(found.data(), 5, (227 << 10) + 1, 128, stream) ==
        cudaErrorInvalidValue);
  require(read_dynamic_shared(found.data(), 5, 227 << 10, 227 << 10, stream));
  require(cudaStreamSynchronize(stream));
  cudaGetLastError();
}

std::vector<int> order_with(std::uint64_t seed) {
  constexpr unsigned blocks = 6;
  DeviceArray<int> const order{blocks * 32};
  DeviceArray<int> const length{std::vector<int>{0}};
  Stream const stream;
  set_seed(seed);
  require(record_order(order.data(), length.data(), blocks, stream));
  return order.values();
}

TEST_CASE("the order of blocks and of threads is the seed's", "[emulation]") {
  auto const one = order_with(1);
  CHECK(order_with(1) == one);
  CHECK(order_with(2) != one);
  // Blocks are whole: one runs at a time.
  std::vector<int> blocks;
  for (std::size_t i = 0; i < one.size(); i += 32) {
    blocks.push_back(one[i] / 32);
    for (std::size_t k = i; k < i + 32; ++k) CHECK(one[k] / 32 == blocks.back());
  }
  CHECK_FALSE(std::is_sorted(blocks.begin(), blocks.end()));
  auto sorted = one;
  std::sort(sorted.begin(), sorted.end());
  CHECK_FALSE(sorted == one);
  CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
}

TEST_CASE("threads that do not meet are an error that names kernel, block and threads",
          "[emulation]") {
  struct Case {
    Mistake mistake;
    std::vector<std::string> parts;
  };
  auto const mistake = GENERATE(
      Case{Mistake::thread_ends_before_barrier, {"__syncthreads()", "thread (5, 0, 0) has ended"}},
      Case{Mistake::two_barriers, {"__syncthreads()", "but thread"}},
      Case{Mistake::barrier_against_shuffle, {"__syncthreads()", "a shuffle"}},
      Case{Mistake::lane_ends_before_shuffle, {"a shuffle", "thread (33, 0, 0) has ended"}},
      Case{Mistake::half_a_mask, {"mask"}}, Case{Mistake::half_a_warp, {"less than 32 threads"}});
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    set_seed(seed);
    Stream const stream;
    require(run_mistake(mistake.mistake, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
    std::string const message = cudaGetErrorString(cudaErrorLaunchFailure);
    for (auto const& part : mistake.parts) CHECK_THAT(message, Catch::Contains(part));
    CHECK_THAT(message, Catch::Contains("test_kernels.cu:") && Catch::Contains("do_mistake") &&
                            Catch::Contains("block (0, 0, 0)"));
    // The device stays broken.
    CHECK(launch_empty(1, 1, stream) == cudaErrorLaunchFailure);
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
    repair();
    require(launch_empty(1, 1, stream));
    require(cudaStreamSynchronize(stream));
  }
}

TEST_CASE("launches beyond a device's limits are refused", "[emulation]") {
  Stream const stream;
  CHECK(launch_empty(1, 1024, stream) == cudaSuccess);
  CHECK(launch_empty(1, 1025, stream) == cudaErrorInvalidConfiguration);
  CHECK_THAT(cudaGetErrorString(cudaErrorInvalidConfiguration),
             Catch::Contains("found 1025 threads a block"));
  CHECK(launch_empty(1, {1, 1, 65}, stream) == cudaErrorInvalidConfiguration);
  CHECK(launch_empty(0, 1, stream) == cudaErrorInvalidConfiguration);
  CHECK(launch_empty(1, 0, stream) == cudaErrorInvalidConfiguration);
  CHECK(launch_empty({1, 65536}, 1, stream) == cudaErrorInvalidConfiguration);
  CHECK(launch_empty({1, 1, 65536}, 1, stream) == cudaErrorInvalidConfiguration);
  CHECK(launch_empty(1, 1, nullptr) == cudaErrorNotSupported);
  cudaGetLastError();
}

TEST_CASE("a launch of 256 x 256 threads with eight barriers takes less than a second",
          "[emulation]") {
  DeviceArray<float> const values{counted(256 * 256)};
  DeviceArray<float> const sums{256};
  Stream const stream;
  auto const begin = std::chrono::steady_clock::now();
  require(block_sums(values.data(), sums.data(), 256, Barriers::present, stream));
  require(cudaStreamSynchronize(stream));
  std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
  CAPTURE(seconds.count());
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  CHECK(seconds.count() < 1);
#endif
}

}  // namespace
}  // namespace stagecraft::emulation::test
