#include <algorithm>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/heads_view.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The operand as [rows, ., ., .], of whatever rank it is.
Operand by_rows(Operand const& operand) {
  if (operand.shape.rank() == 4) return operand;
  Operand rows = operand;
  std::int64_t const first = operand.shape.rank() == 0 ? 1 : operand.shape[0];
  rows.shape = {first, 1, 1, operand.shape.elements() / std::max<std::int64_t>(first, 1)};
  rows.strides = {};
  return rows;
}

/// Copies row place(i) of the first operand to row i of the result.
template <typename S, typename Place>
void copy_rows(KernelContext const& context, KernelCall const& call, Place const& place) {
  Operand const& x = call.reads[0];
  if (x.shape.rank() == 4) {
    expect_heads(call, x, element_type<S>(), x.shape);
  } else {
    expect_tensor(call, x, element_type<S>(), x.shape);
  }
  expect_elements(call, call.writes[0], element_type<S>(), x.shape.elements());
  Operand const rows = by_rows(x);
  Shape const& shape = rows.shape;
  HeadsView<S> const from{rows};
  std::int64_t const width = shape[1] * shape[2] * shape[3];
  for_row_ranges(*context.pool, shape[0], width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      S* to = elements_of<S>(call.writes[0]) + row * width;
      std::int64_t const source = place(row);
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
  with_storage_type(call, [&](auto tag) {
    copy_rows<decltype(tag)>(context, call, [](std::int64_t row) { return row; });
  });
}

void reorder_rows(KernelContext const& context, KernelCall const& call) {
  auto const& order = attributes_of<RowOrderAttributes>(call);
  std::int64_t const all = call.reads[0].shape[0];
  std::int64_t const rows = all / order.ranks;
  std::int64_t const chunk = rows / 2;
  expect(call, rows * order.ranks == all && chunk * 2 == rows, "the rows do not fall into chunks");
  // Row i of the sequence is in chunk i / chunk, which rank r has as its first if it is the r-th,
  // as its second if it is the r-th from behind.
  auto const in_zigzag = [&](std::int64_t row) {
    std::int64_t const number = row / chunk;
    bool const is_first = number < order.ranks;
    std::int64_t const rank = is_first ? number : 2 * order.ranks - 1 - number;
    return rank * rows + (is_first ? 0 : chunk) + row % chunk;
  };
  auto const in_sequence = [&](std::int64_t row) {
    SequencePart const part{
        .rank = static_cast<int>(row / rows), .ranks = order.ranks, .zigzag = true};
    return part.row_of(row % rows, rows);
  };
  with_storage_type(call, [&](auto tag) {
    using S = decltype(tag);
    order.to_sequence ? copy_rows<S>(context, call, in_zigzag)
                      : copy_rows<S>(context, call, in_sequence);
  });
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
