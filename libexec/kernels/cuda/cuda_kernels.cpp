#include "libexec/kernels/cuda/cuda_kernels.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "libexec/kernels/cuda/cuda_check.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"
#include "libexec/kernels/cuda/cuda_op_kernels.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {
namespace {

using CudaKernel = void (*)(CudaContext const&, KernelCall const&);

constexpr std::array<CudaKernel, op_kind_count> make_table() {
  std::array<CudaKernel, op_kind_count> table{};
#define STAGECRAFT_SET_cuda(kind) table[static_cast<std::size_t>(OpKind::kind)] = cuda_ops::kind;
#define STAGECRAFT_SET_none(kind)
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel) \
  STAGECRAFT_SET_##cuda_kernel(kind)
#include "libsim/program/op_kinds.def"
#undef STAGECRAFT_SET_cuda
#undef STAGECRAFT_SET_none
  return table;
}

constexpr std::array<CudaKernel, op_kind_count> table = make_table();

std::byte* bytes_of(CudaMemory const& memory) { return static_cast<std::byte*>(memory.get()); }

/// Enough for scratch space and then cuBLASLt's workspace, and for cuDNN, which takes both.
std::size_t workspace_bytes(KernelNeeds const& needs, CudnnChoice const* cudnn) {
  std::size_t const own = CudaContext::scratch_bytes + CublasLtGemm::workspace_bytes();
  if (cudnn == nullptr) return own;
  return std::max(own, static_cast<std::size_t>(cudnn_workspace(needs, cudnn->sums()).count()));
}

}  // namespace

struct CudaKernels::State {
  std::size_t workspace;
  CudaMemory memory;
  CublasLtGemm gemm;
  std::unique_ptr<CudnnAttention> cudnn;
  CudaContext context;

  State(KernelNeeds const& needs,
        CUstream_st* stream,
        std::shared_ptr<ProductChoices> choices,
        std::shared_ptr<CudnnChoice> const& attention)
      : workspace{workspace_bytes(needs, attention.get())},
        memory{make_cuda_memory(workspace)},
        gemm{stream, std::move(choices), bytes_of(memory) + CudaContext::scratch_bytes},
        cudnn{attention == nullptr
                  ? nullptr
                  : make_cudnn_attention(attention, stream, {bytes_of(memory), workspace})},
        context{.tensor_rank = needs.tensor_rank,
                .expert_rank = needs.expert_rank,
                .sequence = needs.sequence,
                .stream = stream,
                .scratch = bytes_of(memory),
                .gemm = &gemm,
                .cudnn = cudnn.get()} {}
};

CudaKernels::CudaKernels(KernelNeeds const& needs,
                         CUstream_st* stream,
                         std::shared_ptr<ProductChoices> choices,
                         std::shared_ptr<CudnnChoice> const& cudnn)
    : state_{std::make_unique<State>(needs, stream, std::move(choices), cudnn)} {}

CudaKernels::~CudaKernels() = default;

void CudaKernels::run(KernelCall const& call) {
  expect_operands(call);
  CudaKernel const kernel = table[static_cast<std::size_t>(call.kind)];
  if (kernel == nullptr) refuse(call.kind, "there is no CUDA kernel of this kind");
  kernel(state_->context, call);
}

bool CudaKernels::adds_bias(KernelCall const& product) {
  expect_operands(product);
  return cuda_ops::gemm_adds_bias(state_->context, product);
}

Bytes CudaKernels::workspace() const { return Bytes{static_cast<std::int64_t>(state_->workspace)}; }

}  // namespace stagecraft
