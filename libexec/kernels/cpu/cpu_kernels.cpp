#include "libexec/kernels/cpu/cpu_kernels.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "libexec/kernels/cpu/openblas.hpp"
#include "libexec/kernels/kernel_context.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"

namespace stagecraft {
namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

void CpuKernels::FreeAligned::operator()(std::byte* memory) const {
  ::operator delete(memory, alignment);
}

Bytes CpuKernels::workspace(std::span<ElementType const> types, int threads) {
  Bytes most;
  for (ElementType const type : types) {
    std::int64_t const size = type == ElementType::f64 ? 8 : 4;
    std::int64_t const tiles = threads * tiles_per_worker * tile_elements * size;
    std::int64_t const widened = element_size(type) == 2 ? widened_elements * size : 0;
    most = std::max(most, Bytes{std::max(tiles, widened)});
  }
  return most;
}

CpuKernels::CpuKernels(KernelNeeds const& needs, CpuKernelOptions const& options)
    : table_{kernel_table(options.instructions)},
      pool_{std::make_unique<WorkerPool>(options.threads)} {
  if (table_ == nullptr) {
    throw std::invalid_argument(
        "CPU kernels: the processor or this build does not have the instruction set asked for");
  }
  if (options.gemm == GemmKind::openblas) {
    require_threaded_openblas();
    set_openblas_threads(options.threads);
  }
  auto const size = static_cast<std::size_t>(workspace(needs.types, options.threads).count());
  workspace_.reset(static_cast<std::byte*>(::operator new(size, alignment)));
  context_ = {.tensor_rank = needs.tensor_rank,
              .expert_rank = needs.expert_rank,
              .sequence = needs.sequence,
              .gemm = options.gemm,
              .pool = pool_.get(),
              .workspace = {workspace_.get(), size}};
}

void CpuKernels::run(KernelCall const& call) {
  expect_operands(call);
  Kernel const kernel = table_->by_kind[static_cast<std::size_t>(call.kind)];
  if (kernel == nullptr) refuse(call.kind, "there is no CPU kernel of this kind");
  kernel(context_, call);
}

}  // namespace stagecraft
