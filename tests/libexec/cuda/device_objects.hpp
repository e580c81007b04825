#pragma once

#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

/// Device memory, streams and events for tests, freed at the end of a scope. They work with real
/// devices and emulated ones.
namespace stagecraft::test {

inline void require(cudaError_t status) {
  INFO(cudaGetErrorString(status));
  REQUIRE(status == cudaSuccess);
}

class Stream {
 public:
  Stream() { require(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(handle_); }
  Stream(Stream const&) = delete;
  Stream(Stream&&) = delete;
  Stream& operator=(Stream const&) = delete;
  Stream& operator=(Stream&&) = delete;
  operator cudaStream_t() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

class Event {
 public:
  Event() { require(cudaEventCreate(&handle_)); }
  ~Event() { cudaEventDestroy(handle_); }
  Event(Event const&) = delete;
  Event(Event&&) = delete;
  Event& operator=(Event const&) = delete;
  Event& operator=(Event&&) = delete;
  operator cudaEvent_t() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Elements on the device.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_{size} {
    void* memory = nullptr;
    require(cudaMalloc(&memory, bytes()));
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(std::vector<T> const& values) : DeviceArray(values.size()) {
    require(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray const&) = delete;
  DeviceArray(DeviceArray&&) = delete;
  DeviceArray& operator=(DeviceArray const&) = delete;
  DeviceArray& operator=(DeviceArray&&) = delete;

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

  /// After all that was enqueued before.
  std::vector<T> values() const {
    require(cudaDeviceSynchronize());
    return values_now();
  }
  /// Without waiting for anything.
  std::vector<T> values_now() const {
    std::vector<T> result(size_);
    require(cudaMemcpy(result.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace stagecraft::test
