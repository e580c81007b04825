#include "libexec/kernels/cpu/kernel_table.hpp"
#include "libexec/kernels/kernels.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

constexpr KernelTable make_table() {
  KernelTable table;
#define STAGECRAFT_SET_cpu(kind) table.by_kind[static_cast<std::size_t>(OpKind::kind)] = kind;
#define STAGECRAFT_SET_none(kind)
#define STAGECRAFT_OP_KIND(kind, op_class, attributes, operands, cpu_kernel, cuda_kernel) \
  STAGECRAFT_SET_##cpu_kernel(kind)
#include "libsim/program/op_kinds.def"
#undef STAGECRAFT_SET_cpu
#undef STAGECRAFT_SET_none
  table.reduce = reduce;
  return table;
}

constexpr KernelTable table = make_table();

}  // namespace

KernelTable const& all_kernels() { return table; }

}  // namespace stagecraft::STAGECRAFT_ISA
