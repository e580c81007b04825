#include "libexec/kernels/kernel_list.hpp"
#include "libexec/kernels/kernel_table.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/step_kernels.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

constexpr KernelTable make_table() {
  KernelTable table;
  auto const set = [&](OpKind kind, Kernel kernel) {
    table.by_kind[static_cast<std::size_t>(kind)] = kernel;
  };
#define STAGECRAFT_SET(kind) set(OpKind::kind, kind);
  STAGECRAFT_KERNELS(STAGECRAFT_SET)
#undef STAGECRAFT_SET
  set(OpKind::widen_logits, convert_logits);
  set(OpKind::narrow_logits, convert_logits);
  table.scale = scale;
  table.unscale = unscale;
  table.sum_of_squares = sum_of_squares;
  table.adam = adam;
  table.narrow_parameters = narrow_parameters;
  table.reduce = reduce;
  return table;
}

constexpr KernelTable table = make_table();

}  // namespace

KernelTable const& all_kernels() { return table; }

}  // namespace stagecraft::STAGECRAFT_ISA
