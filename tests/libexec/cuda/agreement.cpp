#include "tests/libexec/cuda/agreement.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "libexec/kernels/cuda/cuda_check.hpp"

namespace stagecraft::test {
namespace {

std::size_t bytes_of(TestTensor const& tensor) {
  return static_cast<std::size_t>(tensor.size() * element_size(tensor.type()));
}

/// The call, with the tensors at these addresses.
KernelCall call_at(DeviceCase const& what, std::vector<void*> const& addresses) {
  auto const operands = [&](std::vector<Use> const& uses) {
    std::vector<Operand> all;
    for (Use const& use : uses) {
      TestTensor const& tensor = what.tensors[use.tensor];
      Operand operand = tensor.operand();
      if (use.shape.rank() > 0) operand = tensor.view(use.shape, use.strides, 0);
      operand.data =
          static_cast<std::byte*>(addresses[use.tensor]) + use.offset * element_size(tensor.type());
      all.push_back(operand);
    }
    return all;
  };
  KernelCall call = make_call(what.kind, operands(what.reads), operands(what.writes));
  if (what.kind == OpKind::gemm || what.kind == OpKind::grouped_gemm) {
    call.attributes = GemmAttributes{what.gemm, call.writes[0].type};
  }
  if (what.kind == OpKind::grouped_gemm && what.reads.size() > 2) {
    TestTensor const& counts = what.tensors[what.reads[2].tensor];
    call.counts = {static_cast<std::int32_t const*>(counts.operand().data),
                   static_cast<std::size_t>(counts.size())};
  }
  call.draw = what.draw;
  call.loss_gradient = what.loss_gradient;
  return call;
}

/// The same, with the case's attributes or, if it has none, the model's.
KernelCall attributed_call_at(RankShare const& share,
                              DeviceCase const& what,
                              std::vector<void*> const& addresses) {
  KernelCall call = with_attributes(share, call_at(what, addresses));
  if (!std::holds_alternative<NoAttributes>(what.attributes)) call.attributes = what.attributes;
  return call;
}

}  // namespace

Device::Device(RankShare const& share,
               std::shared_ptr<ProductChoices> choices,
               std::shared_ptr<CudnnChoice> cudnn)
    : share_{share} {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  kernels_ =
      std::make_unique<CudaKernels>(needs_of(share), stream_, std::move(choices), std::move(cudnn));
}

Device::~Device() {
  cudaStreamSynchronize(stream_);
  for (void* const memory : memory_) cudaFree(memory);
  kernels_.reset();
  cudaStreamDestroy(stream_);
}

void* Device::upload(void const* from, std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)), "cudaMalloc");
  memory_.push_back(memory);
  check(cudaMemcpyAsync(memory, from, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  return memory;
}

void Device::download(void* to, void const* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

std::vector<void*> Device::upload(std::vector<TestTensor> const& tensors) {
  std::vector<void*> addresses;
  for (TestTensor const& tensor : tensors) {
    addresses.push_back(upload(tensor.operand().data, bytes_of(tensor)));
  }
  return addresses;
}

bool Device::adds_bias(DeviceCase const& product) {
  return kernels_->adds_bias(call_at(product, upload(product.tensors)));
}

std::vector<TestTensor> Device::run(DeviceCase const& what) {
  std::vector<TestTensor> results = what.tensors;
  std::vector<void*> const addresses = upload(results);
  kernels_->run(attributed_call_at(share_, what, addresses));
  for (std::size_t i = 0; i < results.size(); ++i) {
    download(results[i].operand().data, addresses[i], bytes_of(results[i]));
  }
  return results;
}

std::vector<TestTensor> on_device(RankShare const& share, DeviceCase const& what) {
  return Device{share}.run(what);
}

std::vector<TestTensor> on_cpu(RankShare const& share, DeviceCase const& what) {
  std::vector<TestTensor> results = what.tensors;
  std::vector<void*> addresses;
  for (TestTensor const& tensor : results) addresses.push_back(tensor.operand().data);
  CpuKernels{needs_of(share), {}}.run(attributed_call_at(share, what, addresses));
  return results;
}

double relative_error(TestTensor const& got, TestTensor const& wanted) {
  double difference = 0;
  double norm = 0;
  for (std::int64_t i = 0; i < wanted.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(wanted[i])) continue;
    if (got[i] == wanted[i]) {
      norm += std::isinf(wanted[i]) ? 0 : wanted[i] * wanted[i];
      continue;
    }
    difference += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
  }
  double const error = difference == 0 ? 0 : std::sqrt(difference / norm);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

double device_tolerance(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return 1e-12;
    case ElementType::f32:
      return 1e-5;
    default:
      return 1e-2;
  }
}

void require_agreement(RankShare const& share, DeviceCase const& what) {
  std::vector<TestTensor> const wanted = on_cpu(share, what);
  std::vector<TestTensor> const got = on_device(share, what);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ElementType const type = got[i].type();
    bool const is_written = std::any_of(what.writes.begin(), what.writes.end(),
                                        [&](Use const& use) { return use.tensor == i; });
    CAPTURE(name_of(what.kind), i, name_of(type));
    bool const is_integer =
        type == ElementType::u8 || type == ElementType::i32 || type == ElementType::i64;
    if (!is_written || is_integer) {
      REQUIRE(got[i].same_bits(wanted[i]));
      continue;
    }
    REQUIRE(relative_error(got[i], wanted[i]) <= device_tolerance(type));
  }
}

}  // namespace stagecraft::test
