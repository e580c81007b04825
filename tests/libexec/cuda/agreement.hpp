#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libexec/kernels/cuda/cuda_kernels.hpp"
#include "tests/libexec/kernels/kernel_test.hpp"

/// What tests of CUDA kernels are written with: the same call on the same operands, on a CPU and on
/// a device.
namespace stagecraft::test {

/// One operand: a tensor of the call, or a part of it.
struct Use {
  std::size_t tensor = 0;
  Shape shape{};            ///< of rank 0: all of the tensor
  Shape strides{};          ///< of rank 0: contiguous
  std::int64_t offset = 0;  ///< of the first element, in elements
};

/// A call, with the tensors that its operands are of. One that is read and written is in place.
struct DeviceCase {
  OpKind kind = OpKind::hold;
  std::vector<TestTensor> tensors{};
  std::vector<Use> reads{};
  std::vector<Use> writes{};
  GemmShape gemm{};
  OpAttributes attributes{};  ///< in place of the model's, if the op has some
  RandomDraw draw{};
  double loss_gradient = 1;
};

/// The tensors after the call, the case's own untouched.
std::vector<TestTensor> on_cpu(RankShare const& share, DeviceCase const& what);
std::vector<TestTensor> on_device(RankShare const& share, DeviceCase const& what);

/// The same with kernels that live longer than a call.
class Device {
 public:
  explicit Device(RankShare const& share,
                  std::shared_ptr<ProductChoices> choices = nullptr,
                  std::shared_ptr<CudnnChoice> cudnn = nullptr);
  ~Device();
  Device(Device const&) = delete;
  Device(Device&&) = delete;
  Device& operator=(Device const&) = delete;
  Device& operator=(Device&&) = delete;

  CudaKernels& kernels() { return *kernels_; }
  /// `bytes` behind `from`, aligned to 256 bytes, in device memory of their own; freed with this.
  void* upload(void const* from, std::size_t bytes);
  /// Waits for the stream.
  void download(void* to, void const* from, std::size_t bytes);
  std::vector<TestTensor> run(DeviceCase const& what);
  /// Whether a product is to be given the bias that is its third operand.
  bool adds_bias(DeviceCase const& product);

 private:
  std::vector<void*> upload(std::vector<TestTensor> const& tensors);
  struct Memory;
  RankShare share_;
  CUstream_st* stream_ = nullptr;
  std::vector<void*> memory_;
  std::unique_ptr<CudaKernels> kernels_;
};

/// ||got - wanted|| / ||wanted||; infinite where not both are no number at the same places.
double relative_error(TestTensor const& got, TestTensor const& wanted);

/// Between devices: fp32 1e-5, 16 bits 1e-2, fp64 1e-12. Their sums differ in order, and a 16-bit
/// result may be rounded the other way.
double device_tolerance(ElementType type);

/// Runs the call on both. Every tensor agrees within the tolerance of its type; integers, and what
/// is not written, bit for bit.
void require_agreement(RankShare const& share, DeviceCase const& what);

}  // namespace stagecraft::test
