#include <algorithm>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/heads_view.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/operands/copy_operands.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// Copies rows of the first operand, in this order, to those of the result.
template <typename S>
void copy_rows(KernelContext const& context, KernelCall const& call, RowOrder const& order) {
  Operand const rows = copied_rows<S>(call);
  Shape const& shape = rows.shape;
  HeadsView<S> const from{rows};
  std::int64_t const width = shape[1] * shape[2] * shape[3];
  for_row_ranges(*context.pool, shape[0], width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S* to = elements_of<S>(call.writes[0]) + row * width;
      std::int64_t const source = order.source_of(row);
      for (std::int64_t sequence = 0; sequence < shape[1]; ++sequence) {
        for (std::int64_t head = 0; head < shape[2]; ++head) {
          to = std::copy_n(from.head(source, sequence, head), shape[3], to);
        }
      }
    }
  });
}

}  // namespace

void copy_tensor(KernelContext const& context, KernelCall const& call) {
  with_storage_type(call, [&](auto tag) { copy_rows<decltype(tag)>(context, call, RowOrder{}); });
}

void reorder_rows(KernelContext const& context, KernelCall const& call) {
  RowOrder const order = row_order(call);
  with_storage_type(call, [&](auto tag) { copy_rows<decltype(tag)>(context, call, order); });
}

void zero_fill(KernelContext const& context, KernelCall const& call) {
  Operand const& x = call.writes[0];
  std::int64_t const bytes = x.shape.elements() * element_size(x.type);
  expect_elements(call, x, x.type, x.shape.elements());
  for_row_ranges(*context.pool, bytes, 1, [&](std::int64_t begin, std::int64_t end) {
    std::fill_n(elements_of<std::byte>(x) + begin, end - begin, std::byte{0});
  });
}

}  // namespace stagecraft::STAGECRAFT_ISA
