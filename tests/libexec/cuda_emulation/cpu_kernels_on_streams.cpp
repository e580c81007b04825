// The kernels of an emulated device: those of a CPU, as work of the device's streams.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libexec/kernels/cpu_kernels.hpp"
#include "libexec/kernels/cuda/cuda_check.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"
#include "libexec/kernels/cuda/cuda_kernels.hpp"
#include "libexec/kernels/cuda/reduce_members.hpp"
#include "libexec/kernels/operand_checks.hpp"
#include "libexec/kernels/rank_order_reduction.hpp"
#include "tests/libexec/cuda_emulation/emulation.hpp"

namespace stagecraft {
namespace {

constexpr double seconds_per_kernel = 1e-6;  // virtual
constexpr std::int64_t workspace_bytes = 1 << 20;

/// Which op kinds have a CUDA kernel.
constexpr std::array<bool, op_kind_count> make_table() {
  std::array<bool, op_kind_count> table{};
#define STAGECRAFT_SET_cuda(kind) table[static_cast<std::size_t>(OpKind::kind)] = true;
#define STAGECRAFT_SET_none(kind)
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel) \
  STAGECRAFT_SET_##cuda_kernel(kind)
#include "libsim/model/op_kinds.def"
#undef STAGECRAFT_SET_cuda
#undef STAGECRAFT_SET_none
  return table;
}

constexpr std::array<bool, op_kind_count> has_cuda_kernel = make_table();

}  // namespace

struct ProductChoices {};

std::shared_ptr<ProductChoices> make_product_choices() {
  return std::make_shared<ProductChoices>();
}

struct CudaKernels::State {
  std::shared_ptr<CpuKernels> kernels;  // work that is left on the stream has it, too
  CUstream_st* stream;
  CudaMemory workspace;

  void enqueue(KernelCall call) {
    // The numbers of a step are the host's: it waits for those that kernels tell, and reads others
    // as it launches.
    bool const is_of_step = traits_of(call.kind).op_class == OpClass::step;
    std::vector<void const*> pointers;
    for (OperandList const* const operands : {&call.reads, &call.writes}) {
      for (Operand const& operand : *operands) {
        if (!is_of_step || emulation::is_device_memory(operand.data)) {
          pointers.push_back(operand.data);
        }
      }
    }
    // The host's memory may change when the call is over.
    std::vector<std::int32_t> counts{call.counts.begin(), call.counts.end()};
    check(emulation::enqueue_kernel(
              stream, pointers, seconds_per_kernel,
              [kernels = kernels, call = std::move(call), counts = std::move(counts)]() mutable {
                call.counts = counts;
                kernels->run(call);
              }),
          "launch");
    if (is_of_step) check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
};

CudaKernels::CudaKernels(KernelNeeds const& needs,
                         CUstream_st* stream,
                         std::shared_ptr<ProductChoices> /*choices*/)
    : state_{std::make_unique<State>(
          State{std::make_shared<CpuKernels>(needs, CpuKernelOptions{.gemm = GemmKind::plain}),
                stream, make_cuda_memory(static_cast<std::size_t>(workspace().count()))})} {}

CudaKernels::~CudaKernels() = default;

void CudaKernels::run(KernelCall const& call) {
  expect_operands(call);
  if (!has_cuda_kernel[static_cast<std::size_t>(call.kind)]) {
    refuse(call.kind, "there is no CUDA kernel of this kind");
  }
  if (call.kind != OpKind::gemm || call.reads.size() < 3) return state_->enqueue(call);
  KernelCall product = call;
  product.reads = {call.reads[0], call.reads[1]};
  state_->enqueue(product);
  KernelCall bias;
  bias.kind = OpKind::bias_add;
  bias.reads = {call.writes[0], call.reads[2]};
  bias.writes = {call.writes[0]};
  state_->enqueue(bias);
}

bool CudaKernels::adds_bias(KernelCall const& product) {
  expect_operands(product);
  return true;
}

Bytes CudaKernels::workspace() { return Bytes{workspace_bytes}; }

void reduce_on_device(Reduction reduction,
                      ElementType type,
                      std::span<void const* const> sources,
                      void* destination,
                      std::int64_t elements,
                      CUstream_st* stream) {
  std::vector<void const*> pointers{sources.begin(), sources.end()};
  pointers.push_back(destination);
  check(emulation::enqueue_kernel(
            stream, pointers, seconds_per_kernel,
            [=, sources = std::vector<void const*>{sources.begin(), sources.end()}] {
              WorkerPool pool{1};
              reduce_in_rank_order(pool, reduction, type, sources, destination, elements);
            }),
        "launch");
}

}  // namespace stagecraft
