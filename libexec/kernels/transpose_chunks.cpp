#include <cstdint>
#include <cstring>
#include <vector>

#include "libexec/kernels/element.hpp"
#include "libexec/kernels/kernels.hpp"
#include "libexec/kernels/row_ranges.hpp"

namespace stagecraft::STAGECRAFT_ISA {
namespace {

/// The first row of each chunk in the order [outer, inner], and after it that of the last.
std::vector<std::int64_t> chunk_starts(KernelCall const& call,
                                       ChunkAttributes const& chunks,
                                       Operand const& counts,
                                       bool is_moved) {
  expect_tensor(call, counts, ElementType::i32, counts.shape);
  expect(call, counts.shape.elements() == chunks.outer * chunks.inner,
         "there are not as many counts as chunks");
  auto const* const count = elements_of<std::int32_t>(counts);
  std::vector<std::int64_t> starts{0};
  // The counts are in the order of the chunks, before they are moved or after it.
  std::int64_t const outer = is_moved ? chunks.inner : chunks.outer;
  std::int64_t const inner = is_moved ? chunks.outer : chunks.inner;
  bool const is_in_order = is_moved == chunks.by_inner;
  for (std::int64_t i = 0; i < outer; ++i) {
    for (std::int64_t j = 0; j < inner; ++j) {
      starts.push_back(starts.back() + count[is_in_order ? i * inner + j : j * outer + i]);
    }
  }
  return starts;
}

/// Copies chunks of different sizes.
void transpose_uneven(KernelContext const& context,
                      KernelCall const& call,
                      Operand const& counts,
                      Operand const& from,
                      Operand const& to) {
  auto const& chunks = attributes_of<ChunkAttributes>(call);
  expect_tensor(call, to, from.type, from.shape);
  expect_elements(call, from, from.type, from.shape.elements());
  std::vector<std::int64_t> const first = chunk_starts(call, chunks, counts, false);
  std::vector<std::int64_t> const moved = chunk_starts(call, chunks, counts, true);
  expect(call, first.back() <= from.shape[0], "there are more rows than the plan has room for");
  std::int64_t const row = from.shape[0] == 0 ? 0 : from.shape.elements() / from.shape[0];
  std::int64_t const bytes = row * element_size(from.type);
  for_row_ranges(
      *context.pool, chunks.outer * chunks.inner,
      from.shape.elements() / (chunks.outer * chunks.inner),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t chunk = begin; chunk < end; ++chunk) {
          std::int64_t const target = chunk % chunks.inner * chunks.outer + chunk / chunks.inner;
          std::int64_t const source_row = first[static_cast<std::size_t>(chunk)];
          std::int64_t const rows = first[static_cast<std::size_t>(chunk) + 1] - source_row;
          if (rows == 0) continue;
          std::memcpy(
              static_cast<std::byte*>(to.data) + moved[static_cast<std::size_t>(target)] * bytes,
              static_cast<std::byte const*>(from.data) + source_row * bytes,
              static_cast<std::size_t>(rows * bytes));
        }
      });
}

/// Copies chunk (i, j) of `from` to (j, i) of `to`.
void transpose(KernelContext const& context,
               KernelCall const& call,
               Operand const& from,
               Operand const& to) {
  auto const& chunks = attributes_of<ChunkAttributes>(call);
  expect_tensor(call, to, from.type, from.shape);
  expect_elements(call, from, from.type, from.shape.elements());
  std::int64_t const count = chunks.outer * chunks.inner;
  expect(call, from.shape[0] % count == 0, "rows are not a multiple of the chunks");
  std::int64_t const elements = from.shape.elements() / count;
  auto const bytes = elements * element_size(from.type);
  for_row_ranges(*context.pool, count, elements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      std::int64_t const target = chunk % chunks.inner * chunks.outer + chunk / chunks.inner;
      std::memcpy(static_cast<std::byte*>(to.data) + target * bytes,
                  static_cast<std::byte const*>(from.data) + chunk * bytes,
                  static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace

void transpose_chunks(KernelContext const& context, KernelCall const& call) {
  bool const is_uneven = call.reads.size() == call.writes.size() + 1;
  expect(call, is_uneven || call.reads.size() == call.writes.size(), "an operand has no result");
  for (std::size_t i = 0; i < call.writes.size(); ++i) {
    if (is_uneven) {
      transpose_uneven(context, call, call.reads[call.writes.size()], call.reads[i],
                       call.writes[i]);
    } else {
      transpose(context, call, call.reads[i], call.writes[i]);
    }
  }
}

}  // namespace stagecraft::STAGECRAFT_ISA
