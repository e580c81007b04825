#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "libexec/kernels/cpu/cpu_kernels.hpp"
#include "libexec/kernels/cpu/kernel_table.hpp"
#include "libexec/kernels/cuda/cuda_check.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"
#include "libexec/kernels/cuda/cuda_kernels.hpp"
#include "libexec/kernels/cuda/reduce_members.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "tests/libexec/cuda_emulation/kernel_launch.hpp"

// The kernels of an emulated device, in place of libexec/kernels/cuda: those of the CPU, each
// enqueued on the stream as a device's would be.

namespace stagecraft {

struct ProductChoices {};
std::shared_ptr<ProductChoices> make_product_choices() {
  return std::make_shared<ProductChoices>();
}

namespace {

constexpr std::int64_t workspace_bytes = 1 << 20;

/// From the first element to the last.
std::span<std::byte const> memory_of(Operand const& operand) {
  if (operand.shape.elements() == 0) return {};
  std::int64_t last = 0;
  for (int axis = 0; axis < operand.shape.rank(); ++axis) {
    last += (operand.shape[axis] - 1) * operand.stride(axis);
  }
  return {static_cast<std::byte const*>(operand.data),
          static_cast<std::size_t>((last + 1) * element_size(operand.type))};
}

/// A launched call. Numbers that it reads from host memory are those of its launch.
class Launch {
 public:
  explicit Launch(KernelCall const& call)
      : call_{call}, counts_{call.counts.begin(), call.counts.end()} {
    call_.counts = counts_;
    if (call_.kind == OpKind::grouped_gemm && call_.reads.size() > 2) {
      auto const needed = static_cast<std::size_t>(call_.reads[2].shape.elements());
      expect(call_, counts_.size() == needed, "the counts are not in host memory");
    }
    for (Operand const& operand : call_.writes) {
      if (!is_on_device(operand)) writes_host_ = true;
    }
    for (Operand& operand : call_.reads) {
      if (is_on_device(operand) || writes_host_) continue;
      std::span<std::byte const> const numbers = memory_of(operand);
      operand.data = numbers_.emplace_back(numbers.begin(), numbers.end()).data();
    }
  }
  Launch(Launch const&) = delete;
  Launch(Launch&&) = delete;
  Launch& operator=(Launch const&) = delete;
  Launch& operator=(Launch&&) = delete;
  ~Launch() = default;

  bool writes_host() const { return writes_host_; }
  std::vector<std::span<std::byte const>> const& memory() const { return memory_; }

  void run(CpuKernels& kernels) const {
    if (call_.kind != OpKind::gemm || call_.reads.size() < 3) return kernels.run(call_);
    // Kernels of the CPU do not add the bias of a product.
    KernelCall product = call_;
    product.reads = {call_.reads[0], call_.reads[1]};
    kernels.run(product);
    KernelCall addition;
    addition.kind = OpKind::bias_add;
    addition.reads = {call_.writes[0], call_.reads[2]};
    addition.writes = {call_.writes[0]};
    kernels.run(addition);
  }

 private:
  /// If the operand is on the device, the kernel needs its memory.
  bool is_on_device(Operand const& operand) {
    std::span<std::byte const> const range = memory_of(operand);
    bool const is_there = range.empty() || emulation::is_device_memory(range.data());
    if (is_there) memory_.push_back(range);
    return is_there;
  }

  KernelCall call_;
  std::vector<std::int32_t> counts_;
  std::vector<std::span<std::byte const>> memory_;
  std::vector<std::vector<std::byte>> numbers_;
  bool writes_host_ = false;
};

}  // namespace

struct CudaKernels::State {
  CUstream_st* stream;
  bool fuses_biases;
  CudaMemory memory;
  std::shared_ptr<CpuKernels> kernels;  ///< shared with what was launched
};

CudaKernels::CudaKernels(KernelNeeds const& needs,
                         CUstream_st* stream,
                         std::shared_ptr<ProductChoices> choices,
                         std::shared_ptr<CudnnChoice> const& /*cudnn*/)
    : state_{std::make_unique<State>(
          State{stream, choices != nullptr, make_cuda_memory(workspace_bytes),
                std::make_shared<CpuKernels>(needs, CpuKernelOptions{.gemm = GemmKind::plain})})} {}

CudaKernels::~CudaKernels() = default;

void CudaKernels::run(KernelCall const& call) {
  expect_operands(call);
  auto const launch = std::make_shared<Launch const>(call);
  check(emulation::launch_kernel(state_->stream,
                                 {to_string(call.name), launch->memory(),
                                  [launch, kernels = state_->kernels] { launch->run(*kernels); }}),
        "launch of a kernel");
  if (launch->writes_host()) {
    check(cudaStreamSynchronize(state_->stream), "cudaStreamSynchronize");
  }
}

bool CudaKernels::adds_bias(KernelCall const& product) {
  expect_operands(product);
  return state_->fuses_biases && product.reads[2].type == product.writes[0].type;
}

Bytes CudaKernels::workspace() const { return Bytes{workspace_bytes}; }

void reduce_on_device(Reduction reduction,
                      ElementType type,
                      std::span<void const* const> sources,
                      void* destination,
                      std::int64_t elements,
                      CUstream_st* stream) {
  auto const bytes = static_cast<std::size_t>(elements * element_size(type));
  emulation::Kernel kernel{.name = "reduction of members", .memory = {}, .body = {}};
  kernel.memory.emplace_back(static_cast<std::byte const*>(destination), bytes);
  for (void const* const source : sources) {
    kernel.memory.emplace_back(static_cast<std::byte const*>(source), bytes);
  }
  kernel.body = [=, members = std::vector<void const*>{sources.begin(), sources.end()}] {
    WorkerPool alone{1};
    reduce_in_rank_order(alone, reduction, type, members, destination, elements);
  };
  check(emulation::launch_kernel(stream, std::move(kernel)), "launch of a reduction");
}

}  // namespace stagecraft
