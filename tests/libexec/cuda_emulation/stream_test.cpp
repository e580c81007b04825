// Streams, events, memory, errors.
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <span>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/libexec/cuda/device_objects.hpp"
#include "tests/libexec/cuda_emulation/emulation.hpp"
#include "tests/libexec/cuda_emulation/kernel_launch.hpp"

namespace stagecraft::emulation::test {
namespace {

using namespace stagecraft::test;

/// values[i] = factor * values[i] + term
cudaError_t scale_and_add(
    float* values, float factor, float term, std::size_t elements, cudaStream_t stream) {
  return launch_kernel(stream, {"scale_and_add", {std::as_bytes(std::span{values, elements})}, [=] {
                                  for (float& value : std::span{values, elements}) {
                                    value = factor * value + term;
                                  }
                                }});
}

TEST_CASE("what is enqueued happens when somebody waits, in the stream's order", "[emulation]") {
  DeviceArray<float> const values{std::vector<float>(300, 1.F)};
  Stream const stream;
  require(scale_and_add(values.data(), 2, 0, 300, stream));
  require(scale_and_add(values.data(), 1, 5, 300, stream));
  require(scale_and_add(values.data(), 3, 0, 300, stream));
  CHECK(values.values_now() == std::vector<float>(300, 1.F));
  require(cudaStreamSynchronize(stream));
  CHECK(values.values_now() == std::vector<float>(300, 21.F));
}

enum class Wait { present, missing };

/// A producer's stream doubles, a consumer's copies; then the producer overwrites what was copied.
/// What the consumer got.
float handed_over(std::uint64_t seed, Wait before_copy, Wait before_overwrite) {
  DeviceArray<float> const values{std::vector<float>{3}};
  DeviceArray<float> const copy{1};
  Stream const producer;
  Stream const consumer;
  Event const is_produced;
  Event const is_copied;
  set_seed(seed);
  require(scale_and_add(values.data(), 2, 0, 1, producer));
  require(cudaEventRecord(is_produced, producer));
  if (before_copy == Wait::present) require(cudaStreamWaitEvent(consumer, is_produced));
  require(cudaMemcpyAsync(copy.data(), values.data(), sizeof(float), cudaMemcpyDeviceToDevice,
                          consumer));
  require(cudaEventRecord(is_copied, consumer));
  if (before_overwrite == Wait::present) require(cudaStreamWaitEvent(producer, is_copied));
  require(cudaMemsetAsync(values.data(), 0, sizeof(float), producer));
  require(cudaStreamSynchronize(consumer));
  return copy.values_now().front();
}

TEST_CASE("a missing wait between streams shows with some seed, a present one is kept with all",
          "[emulation]") {
  int too_early = 0;
  int too_late = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    REQUIRE(handed_over(seed, Wait::present, Wait::present) == 6);
    too_early += handed_over(seed, Wait::missing, Wait::present) != 6 ? 1 : 0;
    too_late += handed_over(seed, Wait::present, Wait::missing) != 6 ? 1 : 0;
  }
  CAPTURE(too_early, too_late);
  CHECK(too_early > 20);
  CHECK(too_late > 20);
}

TEST_CASE("a wait is for the record that was last enqueued before it", "[emulation]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    set_seed(seed);
    DeviceArray<float> const values{std::vector<float>{1, 1}};
    Stream const first;
    Stream const second;
    Event const event;
    // Not recorded yet: no wait.
    require(cudaStreamWaitEvent(second, event));
    require(scale_and_add(values.data(), 2, 0, 1, first));
    require(cudaEventRecord(event, first));
    require(cudaStreamWaitEvent(second, event));
    // Recorded anew, behind what waits for `second`: were this the one, they would wait for ever.
    Event const back;
    require(scale_and_add(values.data(), 10, 0, 1, second));
    require(cudaEventRecord(back, second));
    require(cudaStreamWaitEvent(first, back));
    require(scale_and_add(values.data(), 1, 7, 1, first));
    require(cudaEventRecord(event, first));
    require(cudaEventSynchronize(event));
    REQUIRE(values.values_now() == std::vector<float>{27, 1});
  }
}

TEST_CASE("queries say when work is left, and come to an end", "[emulation]") {
  DeviceArray<float> const values{std::vector<float>{1}};
  Stream const stream;
  Event const event;
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  for (int i = 0; i < 3; ++i) require(scale_and_add(values.data(), 2, 0, 1, stream));
  require(cudaEventRecord(event, stream));
  int polls = 0;
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  while (cudaEventQuery(event) == cudaErrorNotReady) REQUIRE(++polls < 1000);
  CHECK(polls > 0);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(values.values_now() == std::vector<float>{8});
}

TEST_CASE("a copy by the host waits for streams that block, not for others", "[emulation]") {
  DeviceArray<float> const values{std::vector<float>{1}};
  cudaStream_t blocking = nullptr;
  require(cudaStreamCreate(&blocking));
  require(scale_and_add(values.data(), 2, 0, 1, blocking));
  CHECK(values.values_now() == std::vector<float>{2});
  // Destroyed with work left: the work is done.
  require(scale_and_add(values.data(), 2, 0, 1, blocking));
  require(cudaStreamDestroy(blocking));
  CHECK(cudaStreamSynchronize(blocking) == cudaErrorInvalidResourceHandle);
  require(cudaDeviceSynchronize());
  CHECK(values.values_now() == std::vector<float>{4});
  cudaGetLastError();
}

TEST_CASE("events measure a time that grows with the work, and streams run side by side",
          "[emulation]") {
  DeviceArray<float> const values{std::vector<float>(1000, 1.F)};
  Stream const stream;
  Stream const other;
  Event const begin;
  Event const middle;
  Event const end;
  float milliseconds = 0;
  require(cudaEventRecord(begin, stream));
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorInvalidResourceHandle);
  require(scale_and_add(values.data(), 2, 0, 1000, stream));
  require(cudaEventRecord(middle, stream));
  for (int i = 0; i < 3; ++i) require(scale_and_add(values.data(), 2, 0, 1000, stream));
  for (int i = 0; i < 100; ++i) require(scale_and_add(values.data(), 1, 0, 1000, other));
  require(cudaEventRecord(end, stream));
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaErrorNotReady);
  require(cudaDeviceSynchronize());
  require(cudaEventElapsedTime(&milliseconds, begin, middle));
  CHECK(milliseconds > 0);
  float all = 0;
  require(cudaEventElapsedTime(&all, begin, end));
  CHECK(all == Approx(4 * milliseconds));
  cudaGetLastError();
}

TEST_CASE("fresh memory holds NaN, is counted, and does not exceed the capacity", "[emulation]") {
  auto const before = memory_in_use();
  {
    DeviceArray<double> const values{10};
    CHECK(memory_in_use() == before + 80);
    for (double const value : values.values_now()) CHECK(std::isnan(value));
    std::size_t free = 0;
    std::size_t total = 0;
    require(cudaMemGetInfo(&free, &total));
    CHECK(total - free == before + 80);
    void* memory = &free;
    CHECK(cudaMalloc(&memory, free + 1) == cudaErrorMemoryAllocation);
    CHECK(memory == &free);
    Stream const stream;
    require(cudaMallocAsync(&memory, 100, stream));
    require(cudaFreeAsync(memory, stream));
    CHECK(memory_in_use() == before + 180);
    require(cudaStreamSynchronize(stream));
    CHECK(memory_in_use() == before + 80);
  }
  CHECK(memory_in_use() == before);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  int x = 0;
  CHECK(cudaFree(&x) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("memory is the stream's from its allocation on, and what comes before may be lost",
          "[emulation]") {
  auto const written = [](std::uint64_t seed, Wait wait) {
    set_seed(seed);
    Stream const owner;
    Stream const writer;
    Event const is_allocated;
    void* memory = nullptr;
    float value = 3;
    require(cudaMallocAsync(&memory, sizeof value, owner));
    require(cudaEventRecord(is_allocated, owner));
    if (wait == Wait::present) require(cudaStreamWaitEvent(writer, is_allocated));
    require(cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, writer));
    require(cudaDeviceSynchronize());
    require(cudaMemcpy(&value, memory, sizeof value, cudaMemcpyDeviceToHost));
    require(cudaFree(memory));
    return value;
  };
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    REQUIRE(written(seed, Wait::present) == 3);
    lost += std::isnan(written(seed, Wait::missing)) ? 1 : 0;
  }
  CAPTURE(lost);
  CHECK(lost > 20);
}

TEST_CASE("copies and kernels take no memory that is not theirs", "[emulation]") {
  DeviceArray<float> const values{8};
  std::vector<float> host(16);
  Stream const stream;
  CHECK(cudaMemcpyAsync(values.data(), host.data(), 36, cudaMemcpyHostToDevice, stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(host.data(), host.data() + 8, 32, cudaMemcpyDeviceToHost, stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(values.data(), values.data() + 4, 4, cudaMemcpyHostToDevice, stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(host.data(), 0, 32, stream) == cudaErrorInvalidValue);
  CHECK(scale_and_add(host.data(), 1, 0, 8, stream) == cudaErrorIllegalAddress);
  CHECK(cudaMemcpyAsync(values.data(), host.data(), 32, cudaMemcpyDefault, nullptr) ==
        cudaErrorNotSupported);
  CHECK_THAT(cudaGetErrorString(cudaErrorNotSupported), Catch::Contains("default stream"));
  cudaGetLastError();
}

TEST_CASE("a kernel that comes behind the free of its memory, or that throws, breaks the device",
          "[emulation]") {
  int late = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    set_seed(seed);
    Stream const stream;
    Stream const other;
    void* memory = nullptr;
    require(cudaMallocAsync(&memory, 64, stream));
    require(scale_and_add(static_cast<float*>(memory), 1, 1, 16, stream));
    require(cudaFreeAsync(memory, other));
    if (cudaDeviceSynchronize() == cudaSuccess) continue;
    CHECK_THAT(cudaGetErrorString(cudaErrorLaunchFailure),
               Catch::Contains("scale_and_add: its memory was freed"));
    repair();
    ++late;
  }
  CAPTURE(late);
  CHECK(late > 10);
  CHECK(late < 40);

  Stream const stream;
  require(launch_kernel(stream, {"loss", {}, [] { throw std::logic_error{"no label"}; }}));
  CHECK(cudaStreamSynchronize(stream) == cudaErrorLaunchFailure);
  CHECK_THAT(cudaGetErrorString(cudaErrorLaunchFailure), Catch::Contains("loss: no label"));
  // The device stays broken.
  CHECK(launch_kernel(stream, {"next", {}, [] {}}) == cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  repair();
  require(launch_kernel(stream, {"next", {}, [] {}}));
  require(cudaStreamSynchronize(stream));
}

TEST_CASE("a kernel that writes next to its memory ends the program", "[emulation]") {
  auto const ends_well = [](long offset) {
    pid_t const child = fork();
    if (child == 0) {
      // Not Catch2's report, and not that of a sanitizer.
      std::signal(SIGABRT, SIG_DFL);
      close(STDOUT_FILENO);
      close(STDERR_FILENO);
      float* values = nullptr;
      cudaStream_t stream = nullptr;
      cudaMalloc(reinterpret_cast<void**>(&values), 40);
      cudaStreamCreate(&stream);
      launch_kernel(stream, {"write", {}, [=] { values[offset] = 1; }});
      cudaFree(values);
      _exit(0);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  CHECK(ends_well(0));
  CHECK(ends_well(9));
  CHECK_FALSE(ends_well(10));
  CHECK_FALSE(ends_well(-1));
}

TEST_CASE("host threads with streams of their own get their own results", "[emulation]") {
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(4);
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    threads.emplace_back([rank, &results] {
      cudaStream_t stream = nullptr;
      float* values = nullptr;
      float begin = 0;
      results[rank].resize(200);
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      cudaMalloc(reinterpret_cast<void**>(&values), 800);
      for (float& result : results[rank]) {
        cudaMemcpyAsync(values, &begin, sizeof(float), cudaMemcpyHostToDevice, stream);
        scale_and_add(values, 1, static_cast<float>(rank + 1), 1, stream);
        cudaMemcpyAsync(&result, values, sizeof(float), cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        begin = result;
      }
      cudaFree(values);
      cudaStreamDestroy(stream);
    });
  }
  for (auto& thread : threads) thread.join();
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    CHECK(results[rank].back() == static_cast<float>(200 * (rank + 1)));
  }
}

TEST_CASE("a machine without a driver says so and leaves arguments alone", "[emulation]") {
  int count = 17;
  set_device_count(0);
  auto const status = cudaGetDeviceCount(&count);
  int version = -1;
  auto const versions = cudaDriverGetVersion(&version);
  set_device_count(1);
  CHECK(status == cudaErrorInsufficientDriver);
  CHECK(status == 35);
  CHECK(count == 17);
  CHECK(versions == cudaSuccess);
  CHECK(version == 0);
  CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
  require(cudaGetDeviceCount(&count));
  CHECK(count == 1);
  cudaGetLastError();
}

}  // namespace
}  // namespace stagecraft::emulation::test
