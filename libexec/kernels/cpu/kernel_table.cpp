#include "libexec/kernels/cpu/kernel_table.hpp"

namespace stagecraft {
namespace {

#ifdef STAGECRAFT_HAS_X86_64_LEVELS
// GCC 12 cannot ask the running processor for a level by name, so this asks for its features.
bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#endif

}  // namespace

KernelTable const* kernel_table(InstructionSet instructions) {
  switch (instructions) {
    case InstructionSet::baseline:
      return &isa_baseline::all_kernels();
#ifdef STAGECRAFT_HAS_X86_64_LEVELS
    case InstructionSet::x86_64_v3:
      return has_v3() ? &isa_v3::all_kernels() : nullptr;
    case InstructionSet::x86_64_v4:
      return has_v4() ? &isa_v4::all_kernels() : nullptr;
#else
    case InstructionSet::x86_64_v3:
    case InstructionSet::x86_64_v4:
      break;
#endif
  }
  return nullptr;
}

InstructionSet best_instruction_set() {
  for (InstructionSet const set : {InstructionSet::x86_64_v4, InstructionSet::x86_64_v3}) {
    if (kernel_table(set) != nullptr) return set;
  }
  return InstructionSet::baseline;
}

void reduce_in_rank_order(WorkerPool& pool,
                          Reduction reduction,
                          ElementType type,
                          std::span<void const* const> sources,
                          void* destination,
                          std::int64_t elements) {
  kernel_table(best_instruction_set())
      ->reduce(pool, reduction, type, sources, destination, elements);
}

}  // namespace stagecraft
